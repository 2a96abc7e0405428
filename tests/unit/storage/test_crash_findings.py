"""Regression tests for bugs that the crash-point exploration found, each with the shortest sequence of events."""

from collections.abc import Callable
from typing import Any

import pytest

from tidemill.raft.entry import COMMAND, Entry, no_op
from tidemill.share.share_row import OpenShare, encode_row
from tidemill.simulation.machine.crash_fate import ALL_KEPT, ALL_LOST, Alone
from tidemill.storage.machine.shard_machine import MachineNumber
from tidemill.storage.partition.segment import SegmentDamaged
from tidemill.storage.store import StoreOptions

PAGE = 4096
OPTIONS = StoreOptions(
    journal_first_bytes=32 * PAGE,
    journal_file_bytes=32 * PAGE,
    journal_bytes_max=32 * PAGE,
    block_bytes_max=4 * PAGE,
    cache_bytes_max=0,
    checkpoint_bytes=16 * PAGE,
)


def epochs(hand: Any) -> list[tuple[int, int]]:
    return [(start.epoch, start.start_offset) for start in hand.log.epochs.starts]


def begin_term(hand: Any, term: int) -> None:
    """Append the first entry of a term, a no-op that takes no offset."""
    entry = no_op(hand.next_timestamp)
    entry.index, entry.term = hand.shard.last_index + 1, term
    hand.store.append(hand.shard, [entry])


def test_an_epoch_comes_back_with_the_truncation_of_the_one_that_displaced_it(make_hand: Callable[..., Any]) -> None:
    """
    Terms 3 and 4 begin at the same offset.  When the entry of term 4 is truncated, the epoch of term 3 returns, and its
    leader continues.
    """
    hand = make_hand(OPTIONS)
    hand.append(2)
    begin_term(hand, 3)
    begin_term(hand, 4)

    hand.store.truncate(hand.shard, hand.shard.last_index)
    hand.append(1, term=3)
    hand.write_all()

    assert [(1, 0), (3, 2)] == epochs(hand)
    assert [(1, 0), (3, 2)] == epochs(hand.restarted())


def test_a_checkpoint_keeps_the_epoch_that_a_queued_one_displaces(make_hand: Callable[..., Any]) -> None:
    """
    The queued entry of the new term is lost in the power loss.  The state up to P remains, including the epoch of the
    older term.
    """
    hand = make_hand(OPTIONS)
    hand.append(2)
    begin_term(hand, 3)
    hand.write_all()
    begin_term(hand, 4)

    hand.checkpoint_now()

    assert [(1, 0), (3, 2)] == epochs(hand.restarted(hand.disk.after_power_loss(ALL_LOST)))


def test_the_name_of_a_checkpoint_is_durable_before_the_ring_is_free(make_hand: Callable[..., Any]) -> None:
    """
    The name of a checkpoint is durable before the ring is freed.  The first checkpoint creates the
    second of the two checkpoint files; losing just the name of that file would lose the checkpoint.
    """
    hand = make_hand(OPTIONS)
    hand.append(2)
    hand.write_all()

    hand.checkpoint()

    assert [] == [name for name in hand.disk.unsynced_names() if name.path.startswith("checkpoint")]
    for name in hand.disk.unsynced_names():
        assert 1 == hand.restarted(hand.disk.after_power_loss(Alone(name))).store.checkpoints.number


def test_the_directory_of_a_segment_is_durable_although_an_index_file_has_made_it(
    make_hand: Callable[..., Any],
) -> None:
    """
    Seed 624 of the simulation of timer topics: an index file of what waits made the directory before the first segment
    was written back.  So no checkpoint synced the directory's own name, and a power loss took the segments with it.
    """
    hand = make_hand(OPTIONS)
    hand.disk.make_directory(hand.log.directory)
    hand.append(2)
    hand.write_all()

    hand.checkpoint()

    assert {} == hand.restarted(hand.disk.after_power_loss(ALL_LOST)).found.damaged


def test_the_directory_of_a_segment_is_durable_although_a_killed_process_has_made_it(
    make_hand: Callable[..., Any],
) -> None:
    """
    The process was killed before a checkpoint, so that the directory is only in the page cache.  All that was in the
    directory has been truncated, so recovery writes nothing to it.
    """
    hand = make_hand(OPTIONS)
    hand.append(2)
    hand.write_all()
    hand.store.truncate(hand.shard, 1)
    hand.write_all()
    again = hand.restarted()
    again.append(2, term=2)
    again.write_all()

    again.checkpoint()

    assert {} == again.restarted(again.disk.after_power_loss(ALL_LOST)).found.damaged


def test_a_batch_that_was_trimmed_since_is_still_known_for_its_producer(make_hand: Callable[..., Any]) -> None:
    """
    The batch was durable but not committed when the checkpoint was taken.  Its segment has been removed since then, but
    a retry of the batch must still be recognized.
    """
    hand = make_hand(OPTIONS, segment_bytes=1)
    hand.append(1, producer_id=7, producer_epoch=0, base_sequence=0)
    hand.write_all()
    hand.checkpoint()
    hand.commit()
    hand.append(1)
    hand.write_all()
    hand.commit()

    hand.store.trim(hand.shard, 0, 1)
    hand.write_all()
    hand.remove()

    assert [7] == list(hand.log.producers.newest())
    assert [7] == list(hand.restarted().log.producers.newest())


def test_trimmed_entries_count_as_committed_after_a_restart(make_hand: Callable[..., Any]) -> None:
    """
    Seed 882 of the cluster simulation: a leader had removed the bytes of trimmed entries, and did not know after its
    restart that these entries were committed.  It could not send them to a follower, and offered empty snapshots
    instead.  With the third broker down, this repeated forever.
    """
    hand = make_hand(OPTIONS, segment_bytes=1)
    hand.append(3)
    hand.append(1, partition=1)
    hand.append(2)
    hand.write_all()
    hand.shard.commit(5)

    hand.store.trim(hand.shard, 0, 4)
    hand.append(1)
    hand.write_all()
    hand.remove()
    again = hand.restarted()

    assert (5, 7) == (again.shard.commit_index, again.shard.last_index)
    assert 4 == again.log.segments[0].base_offset


def test_commands_below_a_trimmed_batch_are_applied_at_a_restart(make_hand: Callable[..., Any]) -> None:
    """A command before a trimmed batch is committed, so its state machine has its effect after a restart."""
    hand = make_hand(OPTIONS, segment_bytes=1)
    hand.append(1)
    opened = Entry(COMMAND, encode_row([OpenShare(0, "g", 1, 0, 0)]), partition=0, append_time=hand.next_timestamp)
    opened.index, opened.term = hand.shard.last_index + 1, 1
    hand.store.append(hand.shard, [opened])
    hand.append(1)
    hand.write_all()
    hand.shard.commit(3)

    hand.store.trim(hand.shard, 0, 2)
    hand.append(1)
    hand.write_all()
    again = hand.restarted().shard

    machine = again.machines.by_number[MachineNumber.SHARE_PARTITIONS]
    assert (3, 4) == (again.commit_index, again.last_index)
    assert ["g"] == [share.group for share in machine.shares[0].by_number.values()]


def test_a_batch_that_was_trimmed_in_its_middle_counts_as_committed(make_hand: Callable[..., Any]) -> None:
    """
    Seed 800843 of the cluster simulation: records up to the middle of a batch were trimmed.  After its restart, a
    leader did not know that the batch was committed, and offered a snapshot in which the partition ended before its log
    start.
    """
    hand = make_hand(OPTIONS)
    hand.append(3)
    hand.append_batch(5)
    hand.append(1)
    hand.write_all()
    hand.shard.commit(4)

    hand.store.trim(hand.shard, 0, 6)
    hand.write_all()
    again = hand.restarted()

    assert (4, 5) == (again.shard.commit_index, again.shard.last_index)


def test_a_trim_that_is_journaled_before_its_batches_counts_as_commit(make_hand: Callable[..., Any]) -> None:
    """
    While this replica's ring is full, the other replicas can commit a batch without it.  If the batch is then trimmed,
    the trim enters this journal before the batch.  After a restart, the batch must count as committed.
    """
    hand = make_hand(OPTIONS)
    hand.append(2)
    hand.write_all()
    hand.append(3)
    hand.shard.commit(4)

    hand.store.trim(hand.shard, 0, 4)
    hand.write_all()
    again = hand.restarted()

    assert (4, 5) == (again.shard.commit_index, again.shard.last_index)


def test_the_file_of_an_empty_segment_is_not_removed_under_its_next_batch(make_hand: Callable[..., Any]) -> None:
    """
    A segment is truncated completely, everything before it is trimmed, and the next batch creates its file again.  The
    new file must not be removed.
    """
    hand = make_hand(OPTIONS, segment_bytes=1)
    hand.append(2)
    hand.write_all()
    hand.shard.commit(1)
    hand.store.truncate(hand.shard, 2)
    hand.write_all()

    hand.store.trim(hand.shard, 0, 1)
    hand.append(1)
    hand.write_all()
    hand.remove()

    assert hand.disk.exists(hand.log.segments[-1].path)
    assert {} == hand.restarted(hand.disk.after_power_loss(ALL_KEPT)).found.damaged


def test_a_closed_shard_does_not_block_a_checkpoint_after_a_full_disk(make_hand: Callable[..., Any]) -> None:
    """Bytes that are written back late must not be synced after their files have been removed."""
    hand = make_hand(OPTIONS, segment_bytes=1)
    hand.append(1)
    hand.disk.free_bytes = 0
    hand.write_all()
    hand.disk.free_bytes = None
    hand.append(1)
    hand.write_all()
    hand.store.begin_checkpoint()
    steps = hand.store.checkpoint_steps()
    assert steps is not None
    hand.store.close_shard(hand.shard.shard_id)
    for _ in steps:
        pass
    hand.write_all()
    hand.remove()
    hand.store.checkpointed()

    hand.checkpoint()

    assert [] == [path for path in hand.disk.file_paths() if path.startswith("topics")]


@pytest.mark.parametrize("is_written_back", [False, True])
def test_a_checkpoint_frees_nothing_that_only_the_journal_has_of_a_closing_shard(
    make_hand: Callable[..., Any], is_written_back: bool
) -> None:
    """
    The CLOSED row may wait for the room that the checkpoint frees.  If power fails before the row is durable, the shard
    is open as it was.
    """
    hand = make_hand(OPTIONS)
    hand.append(5)
    block = hand.store.gather()
    block.write(hand.store.journal)
    hand.store.written(block)
    if is_written_back:
        hand.write_back()
    hand.store.close_shard(hand.shard.shard_id)

    hand.store.begin_checkpoint()
    hand.write_back()
    for _ in hand.store.checkpoint_steps():
        pass
    hand.store.checkpointed()
    again = hand.restarted(hand.disk.after_power_loss(ALL_LOST))

    assert {} == again.found.damaged
    assert 5 == again.log.end_offset


def test_a_checkpoint_has_nothing_of_a_closing_shard_that_was_only_queued(make_hand: Callable[..., Any]) -> None:
    """No block has the queued entries, so their segment never exists.  Recovery called the shard damaged."""
    hand = make_hand(OPTIONS, segment_bytes=1)
    hand.append(1)
    hand.write_all()
    hand.append(1)
    hand.store.close_shard(hand.shard.shard_id)

    hand.checkpoint_now()
    again = hand.restarted(hand.disk.after_power_loss(ALL_LOST))

    assert {} == again.found.damaged
    assert 1 == again.log.end_offset


def test_a_batch_whose_first_bytes_rot_is_not_sent(make_hand: Callable[..., Any]) -> None:
    """
    A batch with a damaged magic, which its CRC does not cover, is not sent: a follower would reject the entry and close
    the link.
    """
    hand = make_hand(OPTIONS)
    (entry,) = hand.append(1)
    hand.write_all()
    assert entry.payload is None
    file = hand.disk.open(hand.log.segments[0].path)
    file.write(16, [b"\x03"])
    hand.log.tail.clear()

    with pytest.raises(SegmentDamaged, match="magic of the batch is 3"):
        hand.shard.payload_of(entry, may_wait=True)
