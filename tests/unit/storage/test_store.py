"""The store under pressure: a full ring, a full disk, truncation while a block is in flight."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tidemill.batches.batch import crc_matches
from tidemill.raft.entry import Kind
from tidemill.simulation.machine.crash_fate import ALL_LOST
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.storage.disk import DiskFull, SyncFailed
from tidemill.storage.journal.journal_block import PAGE_BYTES
from tidemill.storage.journal.row import RowKind
from tidemill.storage.partition import partition_log
from tidemill.storage.recovery import initialize_directory, open_store
from tidemill.storage.store import StoreOptions

OPTIONS = StoreOptions(
    journal_first_bytes=32 * PAGE_BYTES,
    journal_file_bytes=32 * PAGE_BYTES,
    journal_bytes_max=32 * PAGE_BYTES,
    block_bytes_max=4 * PAGE_BYTES,
    cache_bytes_max=0,
    checkpoint_bytes=16 * PAGE_BYTES,
)


def read_all(hand: Any) -> list[bytes]:
    """Return every batch of partition 0 as it is served."""
    log = hand.log
    found = []
    offset = log.log_start
    while offset < log.end_offset:
        result = log.read(offset, 1, log.end_offset, may_wait=True)
        assert result is not None and result[1] > 0
        batch = bytes(result[0][0])
        assert crc_matches(batch)
        found.append(batch)
        offset += 1
    return found


def test_more_rows_than_the_ring_holds_pass_through_it(make_hand: Callable[..., Any]) -> None:
    """
    More rows than the ring holds pass through it: a checkpoint must not wait for rows that, in turn, wait for the
    checkpoint to make room.
    """
    hand = make_hand(OPTIONS)
    hand.append(60, size=PAGE_BYTES)  # twice the size of the ring

    for _ in range(20):
        hand.write_all()
        if not hand.store.has_pending:
            break
        hand.commit_durable()
        hand.checkpoint_now()

    assert not hand.store.has_pending
    assert 60 == len(read_all(hand.restarted(hand.disk.after_kill())))


def test_no_block_is_written_behind_one_whose_sync_failed(make_hand: Callable[..., Any]) -> None:
    """
    No block is written after a block whose sync failed, because the later block would be complete.  If the next process
    then wrote a block of the same size in place of the failed one, recovery would take both for parts of the log.
    """
    hand = make_hand(OPTIONS)
    hand.append(2, size=3 * PAGE_BYTES)
    blocks = [hand.store.gather(), hand.store.gather()]
    hand.disk.fail_sync_at = hand.disk.operations + 1
    with pytest.raises(SyncFailed):
        blocks[0].write(hand.store.journal)
    operations = hand.disk.operations

    with pytest.raises(SyncFailed, match="block 3 is not written: block 2 was not"):
        blocks[1].write(hand.store.journal)

    assert operations == hand.disk.operations


def test_files_are_removed_when_the_block_that_allows_it_is_synced(make_hand: Callable[..., Any]) -> None:
    """
    Files are removed only once the block with the trim is synced (rule D1); the sync of another block in flight before
    it does not count.
    """
    hand = make_hand(OPTIONS, segment_bytes=3 * PAGE_BYTES)
    hand.append(2, size=3 * PAGE_BYTES)
    hand.write_all()
    hand.commit()
    hand.append(1, size=3 * PAGE_BYTES)
    first = hand.store.gather()
    hand.store.trim(hand.shard, 0, hand.log.segments[-1].base_offset)
    second = hand.store.gather()
    for block in (first, second):
        block.write(hand.store.journal)

    hand.store.written(first)
    assert [] == hand.store.removal_steps()
    hand.store.written(second)
    assert [] != hand.store.removal_steps()


def test_a_truncation_finds_room_in_a_full_ring(make_hand: Callable[..., Any]) -> None:
    """
    A truncation leaves the queue before waiting entries.  Entries that it cuts are dropped from the queue, and later
    rows are eventually written.
    """
    hand = make_hand(OPTIONS)
    hand.append(60, size=PAGE_BYTES)
    hand.write_all()
    waiting = [row.index for _, row in hand.store.blocks.rows]
    assert waiting, "the ring is full"

    hand.store.truncate(hand.shard, waiting[0] - 2)
    hand.append(1, term=2)
    assert [RowKind.TRUNCATE, Kind.BATCH] == [row.kind for _, row in hand.store.blocks.rows]
    assert hand.write()

    again = hand.restarted(hand.disk.after_kill())
    assert waiting[0] - 3 == again.shard.last_index
    hand.commit_durable()
    hand.checkpoint_now()
    hand.write_all()
    assert not hand.store.has_pending
    assert waiting[0] - 2 == hand.restarted(hand.disk.after_kill()).shard.last_index


def test_a_checkpoint_waits_for_no_truncation(make_hand: Callable[..., Any]) -> None:
    """
    A checkpoint can be taken even if the reserve is full: its state may lack the truncated entries before the TRUNCATE
    row is written.
    """
    hand = make_hand(OPTIONS)
    hand.append(60, size=PAGE_BYTES)
    hand.write_all()
    waiting = [row.index for _, row in hand.store.blocks.rows]
    for term in range(2, 9):
        hand.store.vote(1, hand.shard, term, None)
        hand.write()
    assert not hand.write(), "the reserve is full"
    hand.store.truncate(hand.shard, waiting[0] - 2)

    hand.checkpoint_now()

    again = hand.restarted(hand.disk.after_kill())
    assert waiting[0] - 3 == again.shard.last_index == len(read_all(again))
    hand.write_all()
    assert not hand.store.has_pending
    assert waiting[0] - 3 == hand.restarted(hand.disk.after_kill()).shard.last_index


def test_a_truncation_recaptures_a_checkpoint_that_has_not_begun_to_write(make_hand: Callable[..., Any]) -> None:
    """
    A truncation makes a checkpoint capture the state again: truncated batches are never written back, so the checkpoint
    would name bytes that are missing.
    """
    hand = make_hand(OPTIONS)
    hand.append(3)
    block = hand.store.gather()
    block.write(hand.store.journal)
    hand.store.begin_checkpoint()
    hand.store.truncate(hand.shard, 2)
    hand.store.written(block)
    steps = hand.store.checkpoint_steps()
    hand.write_back()
    for _ in steps or hand.store.checkpoint_steps():
        pass
    hand.store.checkpointed()

    again = hand.restarted(hand.disk.after_power_loss(ALL_LOST))

    assert None is again.shard.damage
    assert 1 == again.shard.last_index == len(read_all(again))


def test_a_segment_that_is_truncated_while_a_checkpoint_writes_is_synced_by_it(make_hand: Callable[..., Any]) -> None:
    """
    The checkpoint contains the state before the truncation and syncs the segment: if the TRUNCATE row is lost, recovery
    needs the truncated batches.
    """
    hand = make_hand(OPTIONS, segment_bytes=400)
    hand.append(6)
    hand.write_all()
    hand.store.begin_checkpoint()
    steps = hand.store.checkpoint_steps()
    hand.store.truncate(hand.shard, 2)
    for _ in steps:
        pass
    hand.store.checkpointed()

    again = hand.restarted(hand.disk.after_power_loss(ALL_LOST))

    assert None is again.shard.damage
    assert 6 == len(read_all(again))


def test_rows_that_no_block_holds_are_cut_without_a_row(make_hand: Callable[..., Any]) -> None:
    """Truncated rows that are in no block need no TRUNCATE row, and the memory of their batches is freed."""
    hand = make_hand(OPTIONS)
    hand.append(2)
    hand.write_all()
    cut = hand.append(3)

    hand.store.truncate(hand.shard, 3)

    assert not hand.store.has_pending
    assert [None] * 3 == [entry.payload for entry in cut]
    hand.store.cache.evict()
    assert 0 == hand.store.cache.bytes
    hand.append(1, term=2)
    hand.write_all()
    assert 3 == len(read_all(hand)) == len(read_all(hand.restarted(hand.disk.after_kill())))


@pytest.mark.parametrize("trimmed", [2, 4, 6])
def test_a_trim_is_journaled_before_rows_that_wait(make_hand: Callable[..., Any], trimmed: int) -> None:
    """
    A trim is journaled before rows that wait, because it may free the disk space that they wait for.  Recovery replays
    the trim before batches that were appended earlier.
    """
    hand = make_hand(OPTIONS, segment_bytes=2 * PAGE_BYTES + 500)
    hand.append(6, size=PAGE_BYTES)
    hand.write_all()
    hand.commit()
    hand.append(40, size=PAGE_BYTES)
    hand.write_all()
    hand.store.trim(hand.shard, 0, trimmed)
    assert hand.write(), "the reserve takes it"
    hand.remove()
    for _ in range(20):
        hand.commit_durable()
        if hand.store.can_checkpoint:
            hand.checkpoint_now()
        hand.write_all()

    again = hand.restarted(hand.disk.after_power_loss(ALL_LOST))

    assert None is again.shard.damage
    assert [it.base_offset for it in hand.log.segments] == [it.base_offset for it in again.log.segments]
    assert 46 - trimmed == len(read_all(again))


def test_a_checkpoint_holds_nothing_that_is_only_queued(make_hand: Callable[..., Any]) -> None:
    """
    A checkpoint contains nothing that is only queued, except trims.  Recovery takes rows, votes and openings after P
    from the blocks of the journal, so those that are in no block are lost.
    """
    hand = make_hand(OPTIONS)
    hand.append(3, size=50)
    hand.write_all()
    hand.commit()
    term = hand.shard.term
    hand.append(2, size=50)
    hand.store.trim(hand.shard, 0, 2)
    hand.store.vote(hand.shard.shard_id, hand.shard, term + 5, None)
    hand.open_shard(2, first=5)

    hand.checkpoint_now()

    again = hand.restarted(hand.disk.after_kill())
    assert (3, 2, 2) == (again.log.end_offset, again.log.log_start, again.log.trimmed)
    assert (term, [1]) == (again.shard.term, list(again.store.shards))
    assert 1 == len(read_all(again))


def test_a_shard_whose_closing_is_only_queued_is_still_open(make_hand: Callable[..., Any]) -> None:
    """A shard whose CLOSED row is only queued is still in the checkpoint, because P is before that row."""
    hand = make_hand(OPTIONS)
    hand.append(3)
    hand.write_all()
    hand.store.close_shard(1)

    hand.checkpoint_now()

    again = hand.restarted(hand.disk.after_kill())
    assert [1] == list(again.store.shards)
    assert 3 == len(read_all(again))


def test_a_full_ring_still_takes_votes(make_hand: Callable[..., Any]) -> None:
    """In a full ring, a vote may use the reserve (rule J7), because freeing the ring may require a new leader."""
    hand = make_hand(OPTIONS)
    hand.append(60, size=PAGE_BYTES)
    hand.write_all()
    assert hand.store.has_pending
    hand.store.blocks.rows.entries.clear()
    hand.store.vote(1, hand.shard, 7, None)

    assert hand.write()


def test_a_full_ring_takes_an_empty_block_from_the_reserve(make_hand: Callable[..., Any]) -> None:
    """Even a full ring takes an empty block, which records that the block before it is synced."""
    hand = make_hand(OPTIONS)
    hand.append(60, size=PAGE_BYTES)
    hand.write_all()
    hand.store.blocks.rows.entries.clear()

    assert hand.write(empty=True)
    assert not hand.write(empty=True)


def test_the_checkpoint_writes_back_what_found_no_room(make_hand: Callable[..., Any]) -> None:
    """
    The checkpoint writes back the batches for which the disk had no room.  Afterwards the memory of these batches is
    freed.
    """
    hand = make_hand(OPTIONS)
    before = hand.append(2)
    hand.write_all()
    hand.disk.free_bytes, hand.disk.full_writes_part = 0, False
    late = hand.append(40, size=200)
    hand.write_all()
    hand.disk.free_bytes = None
    hand.append(1)
    hand.write_all()
    assert hand.log.segments[0].written == before[-1].position + len(read_all(hand)[1])

    hand.commit()
    hand.checkpoint()

    assert hand.log.segments[0].written == hand.log.segments[0].size
    assert all(entry.payload is None for entry in late)
    hand.store.cache.evict()
    assert 43 == len(read_all(hand))
    assert 43 == len(read_all(hand.restarted()))


def test_a_checkpoint_that_found_no_room_is_taken_again_whole(make_hand: Callable[..., Any]) -> None:
    """
    After a checkpoint has failed on a full disk, the next one does all of its work: bytes to write back, segments and
    directories.
    """
    hand = make_hand(OPTIONS)
    hand.disk.free_bytes, hand.disk.full_writes_part = 0, False
    hand.append(20, size=300)
    hand.write_all()
    hand.store.begin_checkpoint()
    steps = hand.store.checkpoint_steps()
    with pytest.raises(DiskFull):
        for _ in steps:
            pass
    hand.store.checkpoint_failed()
    hand.disk.free_bytes = None

    hand.checkpoint()

    hand.store.cache.evict()
    assert 20 == len(read_all(hand))
    assert 20 == len(read_all(hand.restarted(hand.disk.after_power_loss(ALL_LOST))))


def test_a_batch_truncated_before_its_block_is_gathered_is_not_written_back(make_hand: Callable[..., Any]) -> None:
    """
    A batch that is truncated before its block is gathered is not written back: its position now belongs to the batch
    that replaced it, perhaps in a later block.
    """
    hand = make_hand(replace(OPTIONS, block_bytes_max=PAGE_BYTES))
    hand.append(1)
    hand.write_all()
    hand.append(1, size=2_000)
    hand.append(1, size=3_000)
    hand.store.truncate(hand.shard, 2)
    hand.append(3, size=1_500, term=2)

    while hand.store.has_pending:
        assert hand.write()
        hand.store.cache.evict()
        segment = hand.log.segments[0]
        assert segment.written <= segment.size
        assert 4 == len(read_all(hand))

    assert 4 == len(read_all(hand.restarted()))


def test_a_segment_cut_during_a_write_back_does_not_count_as_written(make_hand: Callable[..., Any]) -> None:
    """
    A segment that is cut during a write-back does not count as written, because the write-back in progress writes the
    old bytes.
    """
    hand = make_hand(OPTIONS)
    hand.append(2)
    block = hand.store.gather()
    block.write(hand.store.journal)
    hand.store.written(block)
    write_back = hand.store.next_write_back(0)
    hand.store.truncate(hand.shard, 2)
    hand.append(2, term=2)
    write_back.execute(hand.disk)
    hand.store.write_back_done(write_back)

    assert 3 == len(read_all(hand))
    hand.write_all()
    hand.store.cache.evict()

    assert 3 == len(read_all(hand))


def test_no_file_is_removed_while_a_write_back_could_make_it_again(make_hand: Callable[..., Any]) -> None:
    """No file is removed while a write-back could create it again; it would stay forever, because no row names it."""
    hand = make_hand(OPTIONS)
    hand.append(2)
    block = hand.store.gather()
    block.write(hand.store.journal)
    hand.store.written(block)
    write_back = hand.store.next_write_back(0)
    hand.store.close_shard(hand.shard.shard_id)
    hand.write_all()

    hand.remove()
    write_back.execute(hand.disk)
    hand.store.write_back_done(write_back)
    hand.remove()

    assert [] == [path for path in hand.disk.file_paths() if path.startswith("topics")]


def test_a_segment_made_again_under_its_old_name_stays(make_hand: Callable[..., Any]) -> None:
    """
    If a truncated segment's file is due for removal and a new segment with the same name has been created, the new file
    stays.
    """
    hand = make_hand(OPTIONS, segment_bytes=400)
    hand.append(6)
    hand.write_all()
    hand.store.truncate(hand.shard, 1)
    hand.append(6, term=2)
    hand.write_all()

    hand.remove()

    hand.store.cache.evict()
    assert 6 == len(read_all(hand))
    hand.log.close()
    assert 6 == len(read_all(hand))


def test_growth_that_finds_no_room_gives_back_what_it_took(make_hand: Callable[..., Any]) -> None:
    """
    If the disk has no room for the ring to grow, the growth frees what it has allocated, so that the disk is no fuller
    than before, and is not retried.
    """
    hand = make_hand(replace(OPTIONS, journal_bytes_max=64 * PAGE_BYTES))
    hand.append(20, size=PAGE_BYTES)
    hand.write_all()
    assert hand.store.wants_growth
    hand.disk.free_bytes = 10 * PAGE_BYTES

    with pytest.raises(DiskFull):
        for _ in hand.store.growth_steps():
            pass
    hand.store.grown(None)

    assert 10 * PAGE_BYTES == hand.disk.free_space()
    assert not hand.store.wants_growth


def test_open_files_are_bounded(make_hand: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The number of open files is bounded: a process can open only so many, and a partition may have thousands of
    segments.
    """
    from tidemill.storage.journal import open_files

    monkeypatch.setattr(open_files, "OPEN_SEGMENTS_MAX", 8)
    hand = make_hand(OPTIONS, segment_bytes=300)
    for _ in range(30):
        hand.append(1)
        hand.write_all()
        hand.commit()
        if hand.store.wants_checkpoint:
            hand.checkpoint()
    hand.checkpoint()
    hand.store.cache.evict()

    assert 30 == len(read_all(hand))
    hand.store.close_surplus_files()

    assert len([segment for segment in hand.log.segments if segment.file is not None]) <= 8


def test_a_closed_shard_leaves_no_file(make_hand: Callable[..., Any]) -> None:
    """A closed shard leaves no file, even after a kill in the middle of the removal."""
    hand = make_hand(OPTIONS)
    hand.append(3)
    hand.append(3, partition=1)
    hand.write_all()
    hand.store.close_shard(1)
    hand.write_all()
    half = hand.restarted()
    hand.remove()

    assert [] == list(hand.disk.list("topics"))
    assert [] == list(half.disk.list("topics"))
    assert [] == list(half.store.shards)


def test_a_report_names_only_entries_that_are_still_there(make_hand: Callable[..., Any]) -> None:
    """
    A report names only entries that still exist: a truncated entry that is durable does not count for the entry that
    replaced it (rule J9).
    """
    hand = make_hand(replace(OPTIONS, block_bytes_max=2 * PAGE_BYTES))
    hand.append(1)
    hand.append(1, size=3_000)
    hand.append(1, size=3_000)
    hand.store.truncate(hand.shard, 2)
    hand.append(1, size=3_000, term=2)

    block = hand.store.gather()

    assert [(1, 1), (2, 2)] == [(row.term, row.index) for _, row in block.rows]
    assert [(2, 2)] == [(report.term, report.log_index) for report in hand.store.written(block)]


def test_a_store_knows_whether_it_mostly_writes_back_for_other_leaders(make_hand: Callable[..., Any]) -> None:
    hand = make_hand(OPTIONS)
    known = []
    for hand.shard.is_led in (True, False, True):
        hand.append(1)
        hand.write_all()
        known.append(hand.store.mostly_follower_writes)

    hand.store.vote(hand.shard.shard_id, hand.shard, 2, None)
    hand.write_all()

    assert [False, True, False, False] == [*known, hand.store.mostly_follower_writes]


def test_segments_without_readers_bypass_the_page_cache(
    make_hand: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Segments without readers bypass the page cache: those on followers, and those whose readers keep up and find the
    newest batches in memory.
    """
    monkeypatch.setattr(partition_log, "UNREAD_BYTES_MAX", 1_000)
    hand = make_hand(OPTIONS)
    found = []

    def write_back_one() -> None:
        hand.append(1, size=600)
        block = hand.store.gather()
        block.write(hand.store.journal)
        hand.store.written(block)
        write_back = hand.store.next_write_back(0)
        found.append(write_back.runs[0].is_read)
        write_back.execute(hand.disk)
        hand.store.write_back_done(write_back)

    for _ in range(3):
        write_back_one()
    hand.log._read_segments(0, 1, 1, may_wait=True)
    write_back_one()

    assert [True, False, False, True] == found
    assert 4 == len(read_all(hand))


def test_a_store_is_freed_without_the_garbage_collector() -> None:
    """Tests open tens of thousands of stores."""
    disk, key = SimulatedDisk(), b"k" * 16
    initialize_directory(disk, key, OPTIONS)
    store, _ = open_store(disk, key, OPTIONS)
    freed = weakref.ref(store)
    gc.disable()
    try:
        del store

        assert freed() is None
    finally:
        gc.enable()
