"""A shard's log: terms, truncation, and which entries leave memory."""

from typing import Any

import pytest

from tidemill.raft.entry import voters_change
from tidemill.raft.voters import Membership
from tidemill.storage.journal.shard_log import TAIL_ENTRIES, ShardDescriptor, read_vote, vote_row


def test_terms_are_known_for_every_index_that_is_left(hand: Any) -> None:
    """After a truncation, the remaining indexes keep their terms."""
    hand.append(3, term=1)
    hand.append(2, term=4)
    log = hand.shard
    assert [0, 1, 1, 1, 4, 4] == [log.term_at(index) for index in range(6)]

    log.truncate(4)

    assert [0, 1, 1, 1] == [log.term_at(index) for index in range(4)]
    with pytest.raises(AssertionError):
        log.term_at(4)


def test_every_partition_begins_an_epoch_with_the_first_entry_of_a_term(hand: Any) -> None:
    """Every partition begins an epoch at its own end offset, whether or not the entry has records for the partition."""
    hand.append(3, term=1)
    hand.append(1, partition=1, term=5)

    starts = [hand.shard.partitions[number].epochs.starts for number in (0, 1)]

    assert [[(1, 0, 1), (5, 3, 4)], [(5, 0, 4)]] == starts


def test_a_committed_entry_cannot_be_truncated(hand: Any) -> None:
    """To truncate a committed entry is a bug, so an assertion fails."""
    hand.append(3)
    hand.shard.commit(2)

    with pytest.raises(AssertionError):
        hand.shard.truncate(2)


def test_only_committed_and_written_entries_are_forgotten(hand: Any) -> None:
    """Only committed and written entries leave memory; the newest ones are kept for followers."""
    hand.append(TAIL_ENTRIES + 20, size=10)
    hand.shard.commit(hand.shard.last_index)
    assert 1 == hand.shard.first_index

    while hand.write() or hand.store.has_pending:
        if hand.store.has_pending and hand.store.journal.free_for_entries <= 4 * 4096:
            hand.checkpoint_now()
    hand.shard.commit(hand.shard.last_index)

    assert 21 == hand.shard.first_index
    assert TAIL_ENTRIES == len(hand.shard.entries)


def test_voters_are_in_force_from_their_entry_on_and_rolled_back(hand: Any) -> None:
    """A change of voters takes effect when its entry is appended, and a truncation undoes it."""
    log = hand.shard
    before = log.memberships[-1][1]
    membership = Membership(before.voters, before.voters)
    entry = voters_change(membership.encode(), 0)
    entry.index = entry.term = 1
    log.append(entry)
    assert membership == log.memberships[-1][1]

    log.truncate(1)

    assert [(0, before)] == log.memberships


def test_an_entry_is_held_until_it_is_truncated(hand: Any) -> None:
    """The log holds an entry until it is truncated.  A new entry with the same index is a different entry."""
    first, second = hand.append(2)
    assert hand.shard.holds(second)

    hand.shard.truncate(2)
    (other,) = hand.append(1, term=2)

    assert (True, False, True) == tuple(map(hand.shard.holds, (first, second, other)))


def test_openings_and_votes_are_read_as_they_were_written(hand: Any) -> None:
    """Shard descriptors and votes, which rows and checkpoints contain, are read back as they were written."""
    descriptor = hand.shard.descriptor
    voter = descriptor.membership.voters[0]

    assert descriptor == ShardDescriptor.decode(descriptor.encode())
    assert (voter, None) == (read_vote(vote_row(3, voter)), read_vote(vote_row(3, None)))
