"""The newest batches in memory: bounded, except for batches that are stored nowhere else."""

from tidemill.raft.entry import BATCH, Entry
from tidemill.storage.partition.tail_cache import BATCH_OVERHEAD_BYTES, Tail, TailCache

KEPT = 10 + BATCH_OVERHEAD_BYTES


def added(cache: TailCache, tail: Tail, offset: int, *, is_written: bool = True) -> Entry:
    entry = Entry(BATCH, bytes(bytearray(10)), base_offset=offset)  # a separate copy of the bytes, as in a broker
    cache.add(tail, entry)
    if is_written:
        entry.payload = None
    return entry


def test_the_oldest_batches_are_evicted_first() -> None:
    """The oldest batches are evicted first, in one order over all partitions."""
    cache, one, other = TailCache(2 * KEPT), Tail(), Tail()
    added(cache, one, 0)
    added(cache, other, 0)

    added(cache, one, 1)

    assert ([1], [0], 2 * KEPT) == ([*one], [*other], cache.bytes)


def test_batches_that_are_not_in_a_segment_stay() -> None:
    """Batches that are not in a segment stay in memory, because they cannot be read from anywhere else."""
    cache, tail = TailCache(1 * KEPT), Tail()
    first = added(cache, tail, 0, is_written=False)
    added(cache, tail, 1)
    added(cache, tail, 2)
    assert [0, 1, 2] == [*tail]

    first.payload = None
    cache.evict()

    assert ([2], KEPT) == ([*tail], cache.bytes)


def test_a_batch_that_took_a_truncated_ones_offset_stays() -> None:
    """A batch at the offset of a truncated one stays; only the size of the truncated batch is subtracted."""
    cache, tail = TailCache(2 * KEPT), Tail()
    added(cache, tail, 0)
    del tail[0]
    added(cache, tail, 0)
    added(cache, tail, 1)

    assert ([0, 1], 2 * KEPT) == ([*tail], cache.bytes)


def test_nothing_of_a_closed_partition_stays() -> None:
    """The bytes of a closed partition are not counted, and other partitions are unchanged."""
    cache, gone, other = TailCache(3 * KEPT), Tail(), Tail()
    added(cache, gone, 0)
    added(cache, other, 0)
    added(cache, gone, 1, is_written=False)

    cache.forget(gone)
    cache.sweep()

    assert ([], [0], KEPT) == ([*gone], [*other], cache.bytes)
    added(cache, other, 1)
    added(cache, other, 2)
    added(cache, other, 3)
    assert [1, 2, 3] == [*other]
