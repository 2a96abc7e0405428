"""Reading a partition: from memory, from its segments, and with damage."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.storage.conftest import SHARD
from tidemill.batches.batch import HEADER_BYTES
from tidemill.storage.disk import Disk, File
from tidemill.storage.partition.partition_log import OffsetGone, PartitionLog
from tidemill.storage.partition.segment import Segment, SegmentDamaged
from tidemill.storage.store import StoreOptions

COLD = StoreOptions(
    journal_first_bytes=1 << 20, journal_file_bytes=1 << 20, journal_bytes_max=1 << 20, cache_bytes_max=0
)
"""With these options, batches that are in a segment are not kept in memory."""


def cold_hand(make_hand: Callable[..., Any], count: int = 20, **options: int) -> Any:
    hand = make_hand(COLD, **options)
    hand.append(count)
    hand.write_all()
    hand.commit()
    hand.store.cache.evict()
    assert not hand.log.tail
    return hand


@pytest.mark.parametrize("cache_bytes", [0, 700, 1 << 20], ids=["disk", "mixed", "memory"])
def test_every_offset_is_read_from_memory_or_segments(
    make_hand: Callable[..., Any], read_offsets: Any, cache_bytes: int
) -> None:
    """A reader that follows the offsets gets each record once, across segments and from disk into memory."""
    hand = make_hand(COLD, segment_bytes=900, index_interval=300)
    hand.store.cache.bytes_max = cache_bytes
    for _ in range(10):
        hand.append_batch(2)
        hand.write_all()
    hand.store.cache.evict()

    for first in range(20):
        met = []
        offset = first - first % 2
        while found := read_offsets(hand, max(offset, first) if not met else offset):
            met += found
            offset = met[-1] + 2
        assert list(range(first - first % 2, 20, 2)) == met


def test_a_read_is_bounded_by_bytes_but_returns_one_batch(make_hand: Callable[..., Any], read_offsets: Any) -> None:
    """
    A read returns at least one batch; otherwise a batch larger than the client's limit would block the client forever.
    """
    hand = cold_hand(make_hand)

    assert [0] == read_offsets(hand, 0, bytes_max=1)
    assert [3] == read_offsets(hand, 3, bytes_max=200)


def test_nothing_at_or_behind_the_end_offset_is_read(make_hand: Callable[..., Any], read_offsets: Any) -> None:
    """Nothing at or after the end offset is read, because uncommitted batches may still be truncated."""
    hand = cold_hand(make_hand)

    assert [0, 1, 2] == read_offsets(hand, 0, end=3)
    assert [] == read_offsets(hand, 3, end=3)


def test_a_read_that_may_not_wait_returns_none_for_the_disk(make_hand: Callable[..., Any]) -> None:
    """With `may_wait=False`, a read that needs the disk returns None: the event loop must never wait for a disk."""
    hand = cold_hand(make_hand)

    assert hand.log.read(0, 1 << 20, 20, may_wait=False) is None


def cold_batches(make_hand: Callable[..., Any], count: int) -> Any:
    """Append batches of three records each, and drop them from memory."""
    hand = make_hand(COLD, index_interval=300)
    for _ in range(count):
        hand.append_batch(3)
    hand.write_all()
    hand.commit()
    hand.store.cache.evict()
    return hand


SIZES = (*range(8, 12), *range(23, 27))
"""The header bytes with the batch's length and last offset: damage in them may make a few later batches unreadable."""


@pytest.mark.parametrize(("byte", "bit"), [(26, 0), (26, 3), (24, 2), (23, 6), (23, 7)])
def test_a_batch_with_a_wrong_record_count_hides_few_others(make_hand: Callable[..., Any], byte: int, bit: int) -> None:
    """
    A batch with a wrong record count hides only batches up to the next index point, even if the index was lost and is
    rebuilt.
    """
    hand = cold_batches(make_hand, 100)
    segment = hand.log.segments[0]
    file = hand.disk.open(segment.path)
    at = 10 * segment.size // 100 + byte
    file.write(at, [bytes([file.read(at, 1)[0] ^ 1 << bit])])
    segment._index = None

    refused = []
    for number in range(100):
        hand.log._places.clear()
        try:
            hand.log.read(3 * number, 1, 300, may_wait=True)
        except SegmentDamaged:
            refused.append(number)

    assert 10 in refused
    assert {*refused} <= {*range(10, 15)}  # batches up to the next index point


@pytest.mark.parametrize("has_index", [True, False], ids=["indexed", "index lost"])
@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_is_reported_not_served(make_hand: Callable[..., Any], bit: int, *, has_index: bool) -> None:
    """
    Whichever field is damaged and wherever the read starts, no reader gets wrong bytes or the batch of another offset.
    The CRC covers neither the base offset nor the magic.
    """
    hand = cold_batches(make_hand, 5)
    segment = hand.log.segments[0]
    file = hand.disk.open(segment.path)
    whole = file.read(0, segment.size)
    start, end = 2 * segment.size // 5, 3 * segment.size // 5  # the batch of offsets 6 to 8

    for byte in (*range(start, start + HEADER_BYTES + 3), end - 1):
        file.write(byte, [bytes([whole[byte] ^ 1 << bit])])
        if not has_index:
            segment._index = None
        for offset in range(15):
            hand.log._places.clear()
            allocate = offset // 3 * segment.size // 5
            try:
                found, size = hand.log.read(offset, segment.size, 15, may_wait=True)
            except SegmentDamaged as told:
                assert told.path == segment.path and 6 <= offset < (15 if byte - start in SIZES else 9)
            else:
                assert size and b"".join(map(bytes, found)) == whole[allocate : allocate + size], f"byte {byte - start}"
                assert not allocate < end <= allocate + size, f"byte {byte - start} was served"
        file.write(byte, [whole[byte : byte + 1]])


def test_batches_before_a_damaged_batch_are_served(make_hand: Callable[..., Any], read_offsets: Any) -> None:
    """A bad sector makes only its own batch unreadable."""
    hand = cold_hand(make_hand, 4)
    segment = hand.log.segments[0]
    hand.disk.open(segment.path).write(segment.size // 2 + 80, [b"?"])

    assert [0, 1] == read_offsets(hand, 0)
    with pytest.raises(SegmentDamaged):
        read_offsets(hand, 2)
    assert [3] == read_offsets(hand, 3)


@pytest.mark.parametrize("size", [0, 10, 100, 300])
def test_a_segment_that_lost_its_end_is_reported(make_hand: Callable[..., Any], size: int) -> None:
    """A segment that has lost its end is reported as damaged; if the result were empty, a client would wait forever."""
    hand = cold_hand(make_hand, 3)
    hand.disk.open(hand.log.segments[0].path).truncate(size)

    with pytest.raises(SegmentDamaged):
        offset = 0
        while True:
            found = hand.log.read(offset, 1, 3, may_wait=True)
            assert found[1] > 0
            offset += 1


def test_a_missing_segment_is_reported(make_hand: Callable[..., Any]) -> None:
    """A read from a missing segment raises SegmentDamaged."""
    hand = cold_hand(make_hand, 3)
    segment = hand.log.segments[0]
    segment.close()
    hand.disk.remove(segment.path)

    with pytest.raises(SegmentDamaged):
        hand.log.read(0, 1 << 20, 3, may_wait=True)


def test_a_log_start_in_the_middle_of_a_batch_is_no_damage(make_hand: Callable[..., Any], read_offsets: Any) -> None:
    """
    DeleteRecords may set the log start to any offset: the epoch table then begins there, but the batch begins earlier.
    """
    hand = make_hand(COLD)
    hand.append_batch(4)
    hand.write_all()
    hand.commit()
    hand.store.cache.evict()

    hand.store.trim(hand.shard, 0, 2)

    assert [0] == read_offsets(hand, 2)


def test_bytes_behind_the_end_offset_are_not_checked(make_hand: Callable[..., Any], read_offsets: Any) -> None:
    """Bytes after the end offset are not checked, because they may be overwritten during the read."""
    hand = cold_hand(make_hand, 3)
    segment = hand.log.segments[0]
    hand.disk.open(segment.path).write(segment.size - 5, [b"?????"])

    assert [0, 1] == read_offsets(hand, 0, end=2)


def test_an_offset_below_the_trim_is_gone(make_hand: Callable[..., Any]) -> None:
    """An offset below the trimmed offset is out of range, which is not damage."""
    hand = cold_hand(make_hand, segment_bytes=500)
    hand.store.trim(hand.shard, 0, 10)

    with pytest.raises(OffsetGone):
        hand.log.read(1, 100, 20, may_wait=True)


def removed_after_opening(hand: Any, monkeypatch: pytest.MonkeyPatch) -> PartitionLog:
    """Let the shard be closed, and its files removed, when a reader has taken the file of a segment."""
    log, opened = hand.log, Segment.opened

    def then_removed(segment: Segment, disk: Disk) -> File:
        file = opened(segment, disk)
        monkeypatch.setattr(Segment, "opened", opened)
        hand.store.close_shard(SHARD)
        hand.write_all()
        hand.remove()
        assert not hand.disk.exists(segment.path)
        return file

    monkeypatch.setattr(Segment, "opened", then_removed)
    return log  # type: ignore[no-any-return]


def test_a_read_ends_although_its_shard_is_removed(
    make_hand: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file stays open as long as a read uses it.  A later read finds no file, which is no damage."""
    hand = cold_hand(make_hand, 3)
    segment = hand.log.segments[0]
    log = removed_after_opening(hand, monkeypatch)

    whole = log.read_bytes(segment, 0, segment.size, may_wait=True)

    assert segment.size == len(whole or b"")
    for read in (
        lambda: log.read(0, 1 << 20, 3, may_wait=True),
        lambda: log.read_bytes(segment, 0, 10, may_wait=True),
        lambda: log.place_of(1, may_wait=True),
        lambda: log.first_at_or_after(0, 3),
        lambda: log.with_largest_timestamp(3),
    ):
        with pytest.raises(OffsetGone):
            read()


def test_a_segment_that_is_trimmed_during_a_read_is_no_damage(make_hand: Callable[..., Any]) -> None:
    """A reader that has chosen the segment before it is removed gets OffsetGone."""
    hand = cold_hand(make_hand, segment_bytes=500)
    segment = hand.log.segments[0]
    hand.store.trim(hand.shard, 0, 10)
    hand.write_all()
    hand.remove()
    assert not hand.disk.exists(segment.path)

    with pytest.raises(OffsetGone):
        hand.log.read_bytes(segment, 0, 10, may_wait=True)


def test_a_running_read_leaves_no_position_of_truncated_batches(make_hand: Callable[..., Any]) -> None:
    """
    A read stores the position at which the next one will begin.  If the log is truncated while the read is running,
    that position is discarded, because it might lead into the middle of another batch.
    """
    hand = cold_hand(make_hand, 6)
    places = hand.log._places
    hand.store.truncate(hand.shard, 3) if hand.shard.commit_index < 3 else hand.log.truncate(hand.shard.entry_at(4))

    places.append((5, hand.log.segments[0], 7))

    assert not hand.log._places


def test_timestamps_are_found_in_files_and_in_memory(make_hand: Callable[..., Any]) -> None:
    """Timestamps are found even if the end of the segment and some index points are only in memory."""
    hand = make_hand(COLD, segment_bytes=2_000, index_interval=300)
    hand.append(15)
    hand.write_all()
    hand.append(5)

    for offset in range(20):
        header = hand.log.first_at_or_after(1_010 + 10 * offset, 20)
        assert header is not None
        assert offset == header.base_offset
    assert hand.log.first_at_or_after(1_300, 20) is None
    largest = hand.log.with_largest_timestamp(20)
    assert largest is not None
    assert 19 == largest.base_offset


def test_a_truncated_segment_never_claims_smaller_timestamps_than_it_has(make_hand: Callable[..., Any]) -> None:
    """
    A truncated segment keeps its largest timestamp; with a smaller one, lookups would skip it, and retention would
    remove it too early.
    """
    hand = cold_hand(make_hand, 6)
    largest = hand.log.segments[0].max_timestamp

    hand.log.truncate(hand.shard.entry_at(4))

    assert largest == hand.log.segments[0].max_timestamp


def test_a_trim_frees_segments_that_an_earlier_one_does_not(make_hand: Callable[..., Any]) -> None:
    """A log start is moved only for them: otherwise it would be moved again and again until the bytes are gone."""
    log = cold_hand(make_hand, segment_bytes=900).log
    first, second = (it.base_offset for it in log.segments[1:3])

    assert [False, True, True] == [log.frees(offset) for offset in (first - 1, first, second)]
    assert [True, False, False, True] == [
        log.frees(*it) for it in ((first, first - 1), (first, first), (second - 1, first), (second, first))
    ]
