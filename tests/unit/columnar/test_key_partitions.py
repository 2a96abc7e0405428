"""The partitions of many keys, compared with those that follow from `murmur2`, which has tests of its own."""

import pytest

from tidemill.batches.scan import murmur2

pa = pytest.importorskip("pyarrow", reason="extra 'spark' is not installed")

from tidemill.columnar.key_partitions import key_partitions  # noqa: E402 - it needs pyarrow

KEYS = [b"", b"UA", b"N14228", None, "Zürich".encode(), b"UA", None, bytes(range(256))]


def by_reference(key, count):
    return None if key is None else murmur2(key) % count


@pytest.mark.parametrize("count", [1, 3, 50])
@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_keys_have_the_partitions_of_java_s_producer(count, kind):
    """Equal keys share a partition, the empty key has one, and a null key has none."""
    found = key_partitions(pa.array(KEYS, kind), count)

    assert pa.int32() == found.type
    assert [by_reference(key, count) for key in KEYS] == found.to_pylist()


def test_a_slice_of_text_and_no_rows_at_all():
    keys = pa.array(["a", None, "b", "c", "d"])

    assert [None, *(by_reference(k, 7) for k in (b"b", b"c"))] == key_partitions(keys.slice(1, 3), 7).to_pylist()
    assert [] == key_partitions(keys.slice(0, 0), 7).to_pylist()
