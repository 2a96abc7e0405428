"""A closed shard may be opened again: with its term and vote, without anything else of its former replica."""

from collections.abc import Callable
from typing import Any

from tests.unit.storage.conftest import ME, SHARD, TOPIC, Hand
from tidemill.raft.voters import Membership
from tidemill.simulation.machine.crash_fate import ALL_LOST
from tidemill.storage.journal.row import RowKind
from tidemill.storage.journal.shard_log import ShardDescriptor

LEARNER = ShardDescriptor(
    topic_id=TOPIC, first_partition=0, partition_count=2, feature_level=1, membership=Membership((), (ME,))
)


def closed(make_hand: Callable[..., Any]) -> Hand:
    """Return a store whose shard had five batches and a vote in term 7, and has been closed."""
    hand: Hand = make_hand()
    hand.append(5)
    hand.write_all()
    hand.store.vote(SHARD, hand.shard, 7, ME)
    hand.store.close_shard(SHARD)
    return hand


def reopened(make_hand: Callable[..., Any]) -> Hand:
    hand = closed(make_hand)
    hand.write_all()
    hand.remove()
    hand.store.open_shard(SHARD, LEARNER)
    return hand


def test_a_shard_opens_again_once_its_files_are_gone(make_hand: Callable[..., Any]) -> None:
    """The removal would take the files of the new replica, which have the same names."""
    hand = closed(make_hand)
    is_queued = hand.store.may_open(SHARD)
    hand.write_all()
    steps = hand.store.removal_steps()
    is_begun = hand.store.may_open(SHARD)
    for step in steps:
        step()
    hand.store.removed()

    assert (False, False, True) == (is_queued, is_begun, hand.store.may_open(SHARD))


def test_term_and_vote_outlive_closing(make_hand: Callable[..., Any]) -> None:
    """Otherwise, the replica could vote twice in a term."""
    hand = reopened(make_hand)
    before = (hand.shard.term, hand.shard.voted_for)
    hand.write_all()
    again = hand.restarted(hand.disk.after_power_loss(ALL_LOST))

    assert [(7, ME)] * 2 == [before, (again.shard.term, again.shard.voted_for)]
    assert Membership((), (ME,)) == again.shard.memberships[-1][1]
    assert not again.store.closed


def test_a_checkpoint_keeps_the_vote_while_the_opening_is_queued(make_hand: Callable[..., Any]) -> None:
    """
    The checkpoint frees the journal with the rows of the former replica; the OPENED row is only queued, and so is a
    vote of the new replica.
    """
    hand = reopened(make_hand)
    hand.store.vote(SHARD, hand.shard, 9, None)
    hand.checkpoint_now()
    again = hand.restarted(hand.disk.after_power_loss(ALL_LOST))

    assert [(7, ME)] == [(it.term, it.voted_for) for it in again.store.closed.values()]


def test_entries_that_wait_are_dropped_with_the_shard(make_hand: Callable[..., Any]) -> None:
    """
    CLOSED overtakes entries in the queue.  If they were written later, a restart would take them for entries of the
    new replica.
    """
    hand: Hand = make_hand()
    hand.write_all()
    hand.append(3)
    hand.store.close_shard(SHARD)

    assert [RowKind.CLOSED] == [row.kind for _, row in hand.store.blocks.rows]
    hand.write_all()
    assert 0 == hand.store.blocks.rows.bytes


def test_a_returning_replica_claims_what_it_had(make_hand: Callable[..., Any]) -> None:
    """
    Other brokers may have acknowledged entries because this one had them.  Until a snapshot has brought them back, it
    must not vote for a candidate that lacks them, neither after a restart nor after a checkpoint.
    """
    hand = reopened(make_hand)
    hand.write_all()
    restarted = hand.restarted(hand.disk.after_power_loss(ALL_LOST))
    restarted.checkpoint()
    again = restarted.restarted(restarted.disk.after_power_loss(ALL_LOST))

    for shard in (hand.shard, restarted.shard, again.shard):
        assert (5, 1, 0) == (shard.last_index, shard.term_at(5), shard.commit_index)
        assert (0, 0) == shard.installing
        assert [0, 0] == [it.end_offset for it in shard.partitions.values()]


def test_a_restart_keeps_the_files_of_the_new_replica(make_hand: Callable[..., Any]) -> None:
    """
    The restart replays CLOSED too, whose removal was already done.  Not all files could be written again from the
    journal: installs and indexes of timer topics write files of their own.
    """
    hand = reopened(make_hand)
    hand.write_all()
    hand.disk.make_directory(hand.log.directory)
    beside = f"{hand.log.directory}/0-2-1.due"
    hand.disk.open(beside, create=True)
    again = hand.restarted(hand.disk.after_kill())

    assert again.disk.exists(beside)
