"""Transcripts of a single voter: what it asks for, and what it believes when it is told."""

import pytest

from tidemill.model.broker_id import BrokerId, DirectoryId, Voter
from tidemill.raft.entry import BATCH, COMMAND, Command, Entry, decode_voters, encode_voters, log_start, read_log_start
from tidemill.raft.replica import Replica, Role

ME = Voter(BrokerId(1), DirectoryId(b"d" * 16))
OTHER = Voter(BrokerId(2), DirectoryId(b"e" * 16))


class Log:
    """What was there before: `last` entries of term `term`."""

    def __init__(self, last: int = 0, term: int = 0) -> None:
        self.first_index = 1
        self.last_index = last
        self.term = term

    def term_at(self, index: int) -> int:
        return self.term if index else 0


def opened(log: Log | None = None, *, term: int = 0, commit_index: int = 0) -> Replica:
    return Replica(me=ME, voters=(ME,), term=term, voted_for=None, log=log or Log(), commit_index=commit_index)


def elected(replica: Replica) -> Replica:
    replica.tick(1_000)
    replica.ready()
    replica.advance(replica.term, 0, vote_durable=True)
    return replica


def test_a_single_voter_leads_only_when_its_vote_is_durable() -> None:
    """Else a crash would let it vote again in a term that it has led."""
    replica = opened(term=3)

    replica.tick(1_000)
    ready = replica.ready()

    assert ready.vote is not None
    assert (4, ME, []) == (ready.vote.term, ready.vote.voted_for, ready.entries)
    assert Role.CANDIDATE is replica.role
    replica.advance(4, 0, vote_durable=True)
    assert Role.LEADER is replica.role


def test_a_report_without_the_vote_elects_nobody() -> None:
    """Entries of earlier blocks are reported in the same way."""
    replica = opened(Log(5, 1), term=1)
    replica.tick(1_000)

    replica.advance(2, 5)

    assert Role.CANDIDATE is replica.role


def test_a_vote_of_an_older_term_elects_nobody() -> None:
    """It was handed over before the present term began."""
    replica = opened(term=1)
    replica.tick(1_000)

    assert not replica.advance(1, 0, vote_durable=True)
    assert Role.CANDIDATE is replica.role


def test_a_leader_begins_with_an_entry_of_its_own() -> None:
    """Which commits everything before it."""
    replica = elected(opened(Log(5, 1), term=1))

    (entry,) = replica.ready().entries or []

    assert (6, 2, COMMAND, bytes((Command.NO_OP,))) == (entry.index, entry.term, entry.kind, entry.payload)
    assert not replica.is_confirmed


def test_only_an_entry_of_the_own_term_commits() -> None:
    """What lies before it commits with it, and not alone."""
    replica = elected(opened(Log(5, 1), term=1))

    moved = replica.advance(2, 5)

    assert (False, 0) == (moved, replica.commit_index)
    assert replica.advance(2, 6)
    assert (6, True) == (replica.commit_index, replica.is_confirmed)


def test_a_report_of_an_older_term_counts_for_nothing() -> None:
    """Rule J9: the entry that it speaks of may have been replaced."""
    replica = elected(opened(Log(5, 1), term=1))

    assert not replica.advance(1, 6)
    assert (5, 0) == (replica.durable_index, replica.commit_index)


def test_the_same_voter_leads_again_in_a_new_term() -> None:
    """A restart must not write two entries of one term under one index."""
    first = elected(opened())

    again = elected(opened(Log(1, first.term), term=first.term))

    assert first.term + 1 == again.term


def test_entries_are_handed_out_once_and_in_order() -> None:
    """They are numbered when they are proposed."""
    replica = elected(opened())
    replica.ready()

    indexes = [replica.propose(Entry(BATCH, b"x")) for _ in range(3)]

    assert [2, 3, 4] == indexes
    assert replica.has_ready
    assert [2, 3, 4] == [entry.index for entry in replica.ready().entries or []]
    assert not replica.has_ready
    assert [] == replica.ready().entries


def test_nothing_commits_twice() -> None:
    """A report that comes late says nothing new."""
    replica = elected(opened())
    replica.advance(1, 1)

    assert not replica.advance(1, 1)
    assert not replica.advance(1, 0)
    assert 1 == replica.commit_index


def test_only_a_leader_may_be_asked() -> None:
    """Who asks has to look first."""
    with pytest.raises(AssertionError):
        opened().propose(Entry(BATCH, b"x"))


def test_a_shard_with_other_voters_is_refused() -> None:
    """Until brokers replicate."""
    with pytest.raises(ValueError, match="not built yet"):
        Replica(me=ME, voters=(ME, OTHER), term=0, voted_for=None, log=Log(), commit_index=0)


def test_voters_and_log_starts_keep_their_form() -> None:
    """They lie in rows and checkpoints."""
    voters = (ME, OTHER)

    assert (voters, 42) == decode_voters(encode_voters(voters))
    assert (7, 1 << 40) == read_log_start(log_start(7, 1 << 40, 0).payload or b"")
