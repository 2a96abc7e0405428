"""If the end of a segment is cut while its index is read, saved or built, no point beyond the cut is kept: other
batches, some with the same sizes, will be written there."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidemill.shard.damage import _read_again
from tidemill.storage.partition import segment as segment_module
from tidemill.storage.partition.partition_log import LogConfig
from tidemill.storage.store import StoreOptions

COLD = StoreOptions(
    journal_first_bytes=1 << 20, journal_file_bytes=1 << 20, journal_bytes_max=1 << 20, cache_bytes_max=0
)
Make = Callable[..., Any]


def started_again(hand: Any) -> Any:
    """Restart the store, so that no index is in memory."""
    hand.checkpoint()
    hand.checkpoint()
    again = hand.restarted(options=COLD)
    for partition in again.shard.partitions.values():
        partition.config = LogConfig(segment_bytes=1 << 30, index_interval_bytes=300)
    return again


def finish(hand: Any) -> None:
    """Write everything back, commit it, and evict it from memory."""
    hand.write_all()
    hand.commit()
    hand.store.cache.evict()


def check(hand: Any, read_offsets: Any) -> None:
    """Check that each offset is found at its position."""
    for offset in range(hand.log.end_offset):
        hand.log._places.clear()
        assert [offset] == read_offsets(hand, offset, bytes_max=1)


@pytest.mark.parametrize("size", [77, 100], ids=["other sizes", "the same sizes"])
def test_an_index_file_is_ignored_behind_a_cut(make_hand: Make, read_offsets: Any, size: int) -> None:
    """
    The index file describes the segment before the cut, and is read while the cut bytes are still in the segment file.
    The points beyond the cut are not used.
    """
    hand = make_hand(COLD, segment_bytes=3_000, index_interval=300)
    entries = hand.append(20)
    hand.write_all()
    hand.shard.commit(entries[4].index)
    hand = started_again(hand)

    hand.store.truncate(hand.shard, entries[6].index)
    hand.next_timestamp = 5_000
    hand.append(40, size=size, term=2)
    hand.store.cache.evict()
    assert [0] == read_offsets(hand, 0, bytes_max=1)
    finish(hand)

    check(hand, read_offsets)
    assert 6 == hand.log.first_at_or_after(2_000, hand.log.end_offset).base_offset


def test_an_index_that_was_made_meanwhile_is_made_again(
    make_hand: Make, read_offsets: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A reader thread builds the index in a long walk, during which the segment is cut.  Nevertheless, every offset is
    found, even after another restart, for which the segment is closed and its index is saved.
    """
    hand = make_hand(COLD, index_interval=300)
    entries = hand.append(20)
    hand.write_all()
    hand.shard.commit(entries[4].index)
    hand = started_again(hand)
    walk = segment_module.walk
    cuts = []

    def cut_at_its_end(*args: Any) -> Iterator[Any]:
        yield from walk(*args)
        if not cuts:
            cuts.append(hand.store.truncate(hand.shard, entries[6].index))

    monkeypatch.setattr(segment_module, "walk", cut_at_its_end)
    assert [0] == read_offsets(hand, 0, bytes_max=1)
    hand.append(40, size=77, term=2)
    finish(hand)

    check(hand, read_offsets)
    _read_again(hand.log, 0, hand.log.end_offset)
    hand.log.roll()
    hand.append(1, term=2)
    finish(hand)
    check(started_again(hand), read_offsets)


def test_a_cut_while_an_index_is_saved(make_hand: Make, read_offsets: Any) -> None:
    """
    A checkpoint on another thread saves the index as it was before the cut.  Nevertheless, every offset is found, even
    after a restart.
    """
    hand = make_hand(COLD, segment_bytes=3_000, index_interval=300)
    entries = hand.append(40)
    hand.write_all()
    hand.shard.commit(entries[2].index)
    hand.store.begin_checkpoint()
    hand.write_all()
    hand.write_back()
    steps = hand.store.checkpoint_steps()
    disk, real = hand.disk, hand.disk.open

    def cut_behind_it(path: str, **options: Any) -> Any:
        file = real(path, **options)
        if path.endswith(".index"):
            disk.open = real
            hand.store.truncate(hand.shard, entries[4].index)
        return file

    disk.open = cut_behind_it
    for _ in steps:
        pass
    hand.store.checkpointed()
    hand.append(40, size=77, term=2)
    finish(hand)

    check(hand, read_offsets)
    check(started_again(hand), read_offsets)


def test_the_index_of_a_removed_segment_is_ignored(make_hand: Make) -> None:
    """
    A running checkpoint saves the index again after the segment was removed.  A new segment with the same name has
    batches of the same sizes, and no checkpoint saves its index before the next start, which must not use the old
    index.
    """
    hand = make_hand(COLD, segment_bytes=1_900, index_interval=1)
    hand.append(10)
    hand.commit()
    hand.write_all()
    tail = hand.append(25)
    hand.write_all()
    first, second = hand.log.segments[1:3]
    hand.store.begin_checkpoint()
    steps = hand.store.checkpoint_steps()
    next(steps)
    hand.store.truncate(hand.shard, next(entry for entry in tail if entry.base_offset == first.base_offset).index)
    hand.next_timestamp += 10_000
    hand.append(4, term=2)
    hand.write_all()
    for _ in steps:
        pass
    hand.store.checkpointed()
    assert hand.disk.exists(second.path.removesuffix(".log") + ".index")
    hand.commit()
    hand.checkpoint()
    while len(hand.log.segments) < 4:
        hand.append(1, term=2)
        if len(hand.log.segments) == 3 and hand.log.segments[2].size > 1_700:
            hand.write_all()
            hand.commit()
            hand.checkpoint()  # the segment is still open at the last checkpoint
    hand.commit()
    hand.write_all()
    batches = [(header.base_offset, header.max_timestamp) for header in hand.log._walked(hand.log.segments[2], -1)]

    again = hand.restarted(options=COLD)

    assert batches
    for base_offset, timestamp in batches:
        assert base_offset == again.log.first_at_or_after(timestamp, again.log.end_offset).base_offset
