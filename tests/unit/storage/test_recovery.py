"""Recovery restores everything that was acknowledged, and reports what is missing."""

from collections.abc import Callable
from typing import Any

import pytest

from tidemill.batches.batch import read_header
from tidemill.raft.entry import BATCH
from tidemill.simulation.machine.crash_fate import ALL_LOST
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.storage import recovery
from tidemill.storage.data_directory import DirectoryProblem
from tidemill.storage.partition.partition_log import OffsetGone
from tidemill.storage.recovery import JournalDamaged, initialize_directory
from tidemill.storage.store import StoreOptions

OPTIONS = StoreOptions(journal_first_bytes=1 << 18, journal_file_bytes=1 << 18, journal_bytes_max=1 << 18)


@pytest.fixture
def hand(make_hand: Callable[..., Any]) -> Any:
    """A store with six batches before a checkpoint and four after it."""
    hand = make_hand(OPTIONS, segment_bytes=700)
    hand.append(6, producer_id=7, producer_epoch=0, base_sequence=0)
    hand.write_all()
    hand.checkpoint()
    hand.append(4)
    hand.write_all()
    hand.write(empty=True)
    return hand


def test_every_synced_batch_is_there_after_a_power_loss(hand: Any, read_offsets: Any) -> None:
    """After a power loss, every synced batch is in the same segment at the same position."""
    again = hand.restarted(hand.disk.after_power_loss(ALL_LOST))

    for offset in range(10):
        assert offset == read_offsets(again, offset)[0]
    assert [(s.base_offset, s.size) for s in hand.log.segments] == [(s.base_offset, s.size) for s in again.log.segments]


def test_recovery_keeps_no_batch_in_memory(hand: Any) -> None:
    """Recovery keeps no batch in memory, because the ring may contain hundreds of megabytes."""
    again = hand.restarted()

    assert all(entry.payload is None for entry in again.shard.entries)


def test_the_bytes_of_a_checkpoints_rows_are_found_again(hand: Any) -> None:
    """
    A leader must still be able to send the bytes of a checkpoint's rows to a follower, although the checkpoint does not
    contain the lengths of the rows.
    """
    again = hand.restarted()
    rows = [entry for entry in again.shard.entries if entry.kind == BATCH]

    sent = [bytes(again.shard.payload_of(entry, may_wait=True)) for entry in rows]

    assert len(sent) == 10
    assert [len(data) for data in sent] == [entry.payload_bytes for entry in rows]
    assert [entry.base_offset for entry in rows] == [read_header(data).base_offset for data in sent]


def test_bytes_of_another_term_are_not_returned_for_an_entry(hand: Any) -> None:
    """A former leader that reads an entry in order to send it does not get the batch that has replaced it."""
    row = hand.shard.entries[-1]
    hand.store.truncate(hand.shard, row.index)
    hand.append(1, term=2)
    hand.write_all()

    with pytest.raises(OffsetGone):
        hand.shard.payload_of(row, may_wait=True)


def test_producers_are_known_again(hand: Any) -> None:
    """Recovery restores producer states from the checkpoint and from the rows after it."""
    assert hand.log.producers.newest() == hand.restarted().log.producers.newest()


def test_recovery_is_idempotent(hand: Any) -> None:
    """Recovery is idempotent, because a power loss may interrupt it at any time."""
    once = hand.restarted()
    twice = once.restarted(once.disk.after_power_loss(ALL_LOST))

    assert (once.shard.last_index, once.log.end_offset) == (twice.shard.last_index, twice.log.end_offset)
    assert {} == twice.found.damaged


@pytest.mark.parametrize("is_missing", [True, False], ids=["missing", "short"])
def test_a_short_segment_is_reported(hand: Any, is_missing: bool) -> None:
    """A missing or short segment is reported before a write could hide the gap."""
    disk = hand.disk.after_kill()
    path = hand.log.segments[0].path
    if is_missing:
        disk.remove(path)
    else:
        disk.open(path).truncate(10)

    again = hand.restarted(disk)

    assert path in again.found.damaged[1]
    assert is_missing != disk.exists(path)


def test_a_missing_segment_that_rows_continue_is_reported(hand: Any) -> None:
    """
    A missing segment is reported, although rows continue it: writing these rows must not create a file with a hole in
    place of the missing records.
    """
    hand.checkpoint()
    hand.append(1)
    hand.write_all()
    disk = hand.disk.after_kill()
    disk.remove(hand.log.segments[-1].path)

    assert hand.log.segments[-1].path in hand.restarted(disk).found.damaged[1]


def test_a_replayed_truncation_is_readable(hand: Any, read_offsets: Any) -> None:
    """After a replayed truncation, the batches that replaced the truncated ones are readable, too."""
    hand.store.truncate(hand.shard, hand.shard.commit_index + 8)
    hand.append(3, term=2, size=150)
    hand.write_all()

    again = hand.restarted()

    assert hand.log.end_offset == again.log.end_offset
    for offset in range(again.log.end_offset):
        assert offset == read_offsets(again, offset)[0]


def test_bytes_behind_the_end_of_a_segment_are_cut(hand: Any) -> None:
    """Bytes after the end of a segment are cut; otherwise a walk over the headers would find them (rule R4)."""
    disk = hand.disk.after_kill()
    segment = hand.log.segments[-1]
    disk.open(segment.path).write(segment.size, [b"left over"])
    disk.open(hand.log.directory + "/00000000000000009999.log", create=True)

    again = hand.restarted(disk)

    assert (9, 1) == (again.found.cut_bytes, len(again.found.removed_files))
    assert segment.size == disk.open(segment.path).size()


def test_a_synced_block_that_cannot_be_read_stops_the_start(hand: Any) -> None:
    """
    A synced block that cannot be read stops the start, because it may have contained acknowledged records (rule R6).
    """
    disk = hand.disk.after_kill()
    head = hand.store.journal.head
    file = disk.open("journal/00000001.journal")
    file.write(head.position - 2 * 4096 + 70, [b"?"])

    with pytest.raises(JournalDamaged):
        hand.restarted(disk)


@pytest.mark.parametrize("size", [0, 5_000], ids=["empty", "torn"])
def test_a_shortened_journal_file_stops_the_start(hand: Any, size: int) -> None:
    """If a journal file is too short, recovery fails instead of hanging."""
    disk = hand.disk.after_kill()
    disk.open("journal/00000001.journal").truncate(size)

    with pytest.raises(JournalDamaged):
        hand.restarted(disk)


def test_topics_without_an_identity_are_not_overwritten() -> None:
    """A directory that has topics but no identity must have lost its identity, so it is not initialized again."""
    disk = SimulatedDisk()
    disk.make_directory("topics/abc")

    with pytest.raises(DirectoryProblem):
        initialize_directory(disk, b"k" * 16, OPTIONS)


def test_recovery_closes_files_that_it_does_not_write(make_hand: Callable[..., Any]) -> None:
    """
    Recovery closes files that it does not write.  If all segments stayed open, there could be more than a process can
    open, and no start would succeed.
    """
    hand = make_hand(segment_bytes=300)
    hand.append(20)
    hand.write_all()
    hand.commit()
    hand.checkpoint()

    again = hand.restarted()

    assert ([], True) == ([s.path for s in again.log.segments if s.file is not None], len(again.log.segments) > 5)


def test_recovery_writes_more_segments_than_may_be_open(
    make_hand: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Recovery can write more segments than may be open.  It syncs files before closing them, because a later sync could
    miss a write error.
    """
    monkeypatch.setattr(recovery, "OPEN_SEGMENTS_MAX", 3)
    hand = make_hand(segment_bytes=300)
    hand.append(10)
    hand.write_all()

    again = hand.restarted(hand.disk.after_power_loss(ALL_LOST))

    assert 3 > sum(s.file is not None for s in again.log.segments)
    again.checkpoint()
    assert list(range(10)) == read_all_offsets(again.restarted(again.disk.after_power_loss(ALL_LOST)))


def read_all_offsets(hand: Any) -> list[int]:
    """Return the base offsets of all batches that can be read from the segments."""
    log, found = hand.log, []
    while len(found) < log.end_offset:
        result = log.read(len(found), 1, log.end_offset, may_wait=True)
        assert result is not None and result[1]
        found.append(read_header(result[0][0]).base_offset)
    return found


def test_entries_of_a_checkpoint_have_their_sizes(make_hand: Callable[..., Any]) -> None:
    """
    Entries restored from a checkpoint have their sizes, by which a leader limits its messages: with sizes of zero, it
    would put a thousand entries into one message, too many for any frame.
    """
    hand = make_hand(segment_bytes=700)
    for partition, size in ((0, 100), (1, 300), (0, 200), (0, 500), (1, 50)):
        hand.append(partition=partition, size=size)
    before = [entry.payload_bytes for entry in hand.shard.entries]
    hand.write_all()
    hand.checkpoint()

    again = hand.restarted()

    assert 0 == again.found.rows
    assert before == [entry.payload_bytes for entry in again.shard.entries]
