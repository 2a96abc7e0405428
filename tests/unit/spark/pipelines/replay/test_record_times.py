"""Up to which offset the records of a partition are due, according to their timestamps."""

from datetime import UTC, datetime, timedelta

import pytest

pa = pytest.importorskip("pyarrow", reason="extra 'spark' is not installed")

from tests.unit.client.fake_cluster import FakeCluster, Partition, Topic  # noqa: E402
from tidemill.columnar import source_options  # noqa: E402
from tidemill.model.partition import TopicPartition  # noqa: E402
from tidemill.spark.pipelines.replay.record_times import (  # noqa: E402
    RecordTimesAhead,
    edge_timestamps,
    times_ahead,
)

START = datetime(2013, 1, 1, tzinfo=UTC)
START_MS = int(START.timestamp() * 1_000)


def ahead(
    seconds: dict[int, int], *, offset: int = 0, batch_rows: int = 2, chunk_offsets: int = 3
) -> tuple[RecordTimesAhead, list[int]]:
    """
    Return the record times of a partition with the given offsets and seconds, and a list to which every offset that is
    read is added.
    """
    read: list[int] = []

    def times(start, end):
        chosen = sorted(offset for offset in seconds if start <= offset < end)
        for first in range(0, len(chosen), batch_rows):
            part = chosen[first : first + batch_rows]
            read.extend(part)
            stamps = [START + timedelta(seconds=seconds[offset]) for offset in part]
            yield pa.record_batch(
                {"offset": pa.array(part, pa.int64()), "timestamp": pa.array(stamps, pa.timestamp("us", "UTC"))}
            )

    return RecordTimesAhead(offset, times, chunk_offsets=chunk_offsets), read


def test_records_are_due_up_to_the_first_with_a_later_timestamp():
    times, read = ahead({0: 0, 1: 10, 2: 20, 3: 30, 4: 40})

    assert START_MS == times.next_timestamp(5)
    assert 1 == times.due_end(START_MS + 9_999, 5)
    assert 3 == times.due_end(START_MS + 20_000, 5)
    assert START_MS + 30_000 == times.next_timestamp(5)
    assert 5 == times.due_end(START_MS + 99_000, 5)
    assert times.next_timestamp(5) is None
    assert [0, 1, 2, 3, 4] == read


def test_a_record_waits_for_those_in_front_of_it():
    """
    The record at offset 2 is older than the one at offset 1, but is due at the same time, so that the order is
    preserved.
    """
    times, _ = ahead({0: 0, 1: 100, 2: 20, 3: 200})

    assert 1 == times.due_end(START_MS + 50_000, 4)
    assert 3 == times.due_end(START_MS + 100_000, 4)


def test_records_before_the_range_do_not_delay_it():
    times, _ = ahead({0: 9_000, 1: 0, 2: 10}, offset=1)

    assert 2 == times.due_end(START_MS, 3)


def test_at_most_one_chunk_is_read_ahead():
    times, read = ahead({offset: offset for offset in range(100)}, chunk_offsets=10)

    assert 13 == times.due_end(START_MS + 12_000, 100)
    assert list(range(20)) == read


def test_a_range_may_grow_and_may_have_gaps():
    """After a compaction, offsets are missing, and the end of an open range moves forward."""
    times, _ = ahead({0: 0, 7: 10, 12: 20})

    assert 10 == times.due_end(START_MS + 50_000, 10)
    assert times.next_timestamp(10) is None
    assert START_MS + 20_000 == times.next_timestamp(15)
    assert 12 == times.due_end(START_MS + 15_000, 15)
    assert 15 == times.due_end(START_MS + 20_000, 15)


@pytest.fixture
def cluster():
    with FakeCluster() as running:
        running.topics["t"] = Topic(partitions={0: Partition(), 1: Partition()})
        yield running


def source_of(cluster):
    host, port = cluster.settings().bootstrap[0]
    return source_options.for_batch({"kafka.bootstrap.servers": f"{host}:{port}", "subscribe": "t"})


def test_partitions_are_read_in_turns_over_one_connection(cluster):
    """
    All partitions share one connection, so each read is completed before the next one: an open read would occupy the
    connection.
    """
    for partition in cluster.topics["t"].partitions.values():
        for second in range(200):
            partition.append_records([b"x" * 2_000] * 100, timestamp=START_MS + second * 1_000)
    both = [times_ahead(source_of(cluster), TopicPartition("t", number), 0) for number in (0, 1)]

    for second in range(0, 200, 7):
        for times in both:
            assert (second + 1) * 100 == times.due_end(START_MS + second * 1_000, 20_000)
    assert 1 == cluster.count("api_versions")


def test_the_edges_are_the_first_and_the_last_records(cluster):
    for second in range(50):
        cluster.topics["t"].partitions[0].append_records([b"x"] * 100, timestamp=START_MS + second * 1_000)
    source = source_of(cluster)
    ranges = {TopicPartition("t", 0): 1_000, TopicPartition("t", 1): 0}, {
        TopicPartition("t", 0): 4_000, TopicPartition("t", 1): 0,
    }  # fmt: skip

    assert {START_MS + 10_000, START_MS + 39_000} == set(edge_timestamps(source, *ranges))
    assert [] == edge_timestamps(source, ranges[0], ranges[0])
