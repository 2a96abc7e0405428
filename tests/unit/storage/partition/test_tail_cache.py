"""The newest batches in memory: bounded, but for what lies nowhere else."""

from tidemill.raft.entry import BATCH, Entry
from tidemill.storage.partition.tail_cache import BATCH_OVERHEAD_BYTES, Tail, TailCache

KEPT = 10 + BATCH_OVERHEAD_BYTES


def added(cache: TailCache, tail: Tail, offset: int, *, is_written: bool = True) -> Entry:
    entry = Entry(BATCH, bytes(bytearray(10)), base_offset=offset)  # bytes of its own, as in life
    cache.add(tail, entry)
    if is_written:
        entry.payload = None
    return entry


def test_the_oldest_go_first() -> None:
    """Over all partitions together."""
    cache, one, other = TailCache(2 * KEPT), Tail(), Tail()
    added(cache, one, 0)
    added(cache, other, 0)

    added(cache, one, 1)

    assert ([1], [0], 2 * KEPT) == ([*one], [*other], cache.bytes)


def test_what_is_not_in_a_segment_stays_whatever_the_bound() -> None:
    """It can be read from nowhere else."""
    cache, tail = TailCache(1 * KEPT), Tail()
    first = added(cache, tail, 0, is_written=False)
    added(cache, tail, 1)
    added(cache, tail, 2)
    assert [0, 1, 2] == [*tail]

    first.payload = None
    cache.evict()

    assert ([2], KEPT) == ([*tail], cache.bytes)


def test_a_batch_that_took_a_truncated_ones_offset_stays() -> None:
    """Only the old one's bytes are counted off."""
    cache, tail = TailCache(2 * KEPT), Tail()
    added(cache, tail, 0)
    del tail[0]
    added(cache, tail, 0)
    added(cache, tail, 1)

    assert ([0, 1], 2 * KEPT) == ([*tail], cache.bytes)


def test_of_a_partition_that_is_gone_nothing_stays() -> None:
    """Nor is it counted; what others have is as it was."""
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
