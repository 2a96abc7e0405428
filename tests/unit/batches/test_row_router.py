"""Routing of rows to partitions: Java's hash of keys, columns, sticky partitions, and the sort by partition."""

from array import array
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.batches import native
from tidemill.batches.row_encoder import binary_buffers

# Hashes that Apache Kafka publishes (UtilsTest.testMurmur2), as signed numbers.
JAVA_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def routed(
    scan: ModuleType,
    values: Sequence[bytes],
    *,
    counts: Sequence[int],
    keys: Sequence[bytes | None] | None = None,
    partitions: Sequence[int | None] | None = None,
    topics: Sequence[int] | None = None,
    sticky: Any = None,
    sticky_bytes: int = 1 << 20,
) -> tuple[int, list[list[int]]]:
    """Return the number of rows routed, and the rows routed to each partition of each topic."""
    ends = binary_buffers(pa.array(values, pa.binary()))[0]
    router = scan.RowRouter(
        len(values), array("i", counts), sticky or array("q", [0, 0] * len(counts)), sticky_bytes, ends
    )
    if topics is not None:
        router.have_topics(array("i", topics))
    if partitions is not None:
        column = pa.array(partitions, pa.int64())
        valid, data = column.buffers()
        router.have_partitions(memoryview(data).cast("q"), valid and memoryview(valid).cast("B"), 0)
    if keys is not None:
        router.have_keys(*binary_buffers(pa.array(keys, pa.binary())))
    count, starts, order = router.route()
    return count, [list(order[starts[slot] : starts[slot + 1]]) for slot in range(sum(counts))]


@pytest.mark.parametrize(("key", "java_hash"), JAVA_HASHES.items())
def test_the_hash_of_a_key_is_that_of_javas_producer(scan: ModuleType, key: bytes, java_hash: int):
    assert java_hash & 0x7FFFFFFF == scan.murmur2(key)


@given(st.binary(max_size=40))
def test_both_implementations_have_the_same_hash(key: bytes):
    from tidemill.batches import scan as plain

    assert plain.murmur2(key) == native.scan.murmur2(key)


def test_a_row_goes_to_its_partition_or_else_to_that_of_its_key(scan: ModuleType):
    keys = [b"21", b"foobar", b"", None, b"abc"]
    count, slots = routed(scan, [b""] * 5, counts=[7], keys=keys, partitions=[None, None, None, 6, 0])

    expected: list[list[int]] = [[] for _ in range(7)]
    expected[0].append(4)
    for row in (0, 1, 2):
        expected[scan.murmur2(keys[row]) % 7].append(row)
    expected[6].append(3)
    assert (5, [sorted(rows) for rows in expected]) == (count, slots)


def test_rows_without_key_stay_in_one_partition_until_it_has_a_batch(scan: ModuleType):
    """After the given number of bytes, the sticky partition changes; the next call continues with the new one."""
    sticky = array("q", [1, 0])

    _, slots = routed(scan, [b"x" * 93] * 5, counts=[3], sticky=sticky, sticky_bytes=200)
    _, more = routed(scan, [b"x"], counts=[3], sticky=sticky, sticky_bytes=200)

    assert [[4], [0, 1], [2, 3]] == slots
    assert [[0], [], []] == more


def test_the_rows_of_several_topics_have_the_slots_of_their_topics(scan: ModuleType):
    count, slots = routed(scan, [b""] * 4, counts=[2, 3], topics=[1, 0, 1, 0], partitions=[2, 0, 0, 1])

    assert (4, [[1], [3], [2], [], [0]]) == (count, slots)


@pytest.mark.parametrize("partition", [-1, 2, 1 << 40])
def test_a_partition_that_the_topic_does_not_have_stops_the_routing(scan: ModuleType, partition: int):
    count, _ = routed(scan, [b""] * 3, counts=[2], partitions=[0, 1, partition])

    assert 2 == count


def test_invalid_columns_are_refused(scan: ModuleType):
    """Offsets outside the data, and unknown topics, raise an error instead of reading unrelated memory."""
    router = scan.RowRouter(1, array("i", [1]), array("q", [0, 0]), 1, array("i", [0, 0]))
    router.have_keys(array("i", [0, 9]), b"short", None, 0)
    with pytest.raises(scan.MalformedRecords):
        router.route()
    router = scan.RowRouter(1, array("i", [1]), array("q", [0, 0]), 1, array("i", [0, 0]))
    router.have_topics(array("i", [1]))
    with pytest.raises(scan.MalformedRecords):
        router.route()
    with pytest.raises(ValueError, match="partitions"):
        scan.RowRouter(0, array("i", [0]), array("q", [0, 0]), 1, array("i", [0]))
    with pytest.raises(ValueError, match="not a partition"):
        scan.RowRouter(0, array("i", [1]), array("q", [1, 0]), 1, array("i", [0]))
    with pytest.raises(ValueError, match="slots"):
        scan.RowRouter(2, array("i", [1]), array("q", [0, 0]), 1, array("i", [0, 0]))


@given(st.lists(st.tuples(st.integers(0, 2), st.one_of(st.none(), st.binary(max_size=9)))))
def test_both_implementations_route_rows_alike(rows: list[tuple[int, bytes | None]]):
    from tidemill.batches import scan as plain

    keys, topics = [key for _, key in rows], [topic for topic, _ in rows]
    answers = [
        routed(form, [b"v" * 5] * len(rows), counts=[3, 1, 4], keys=keys, topics=topics, sticky_bytes=20)
        for form in (plain, native.scan)
    ]

    assert answers[0] == answers[1]
    assert sorted(row for slot in answers[0][1] for row in slot) == list(range(len(rows)))
