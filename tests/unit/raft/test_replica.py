"""With a single voter, `ready` returns the right work, and `advance` accepts only valid reports."""

import pytest

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.raft.elections import none_alive
from tidemill.raft.entry import BATCH, COMMAND, Command, Entry, decode_voters, encode_voters, log_start, read_log_start
from tidemill.raft.ready import Ready, Vote
from tidemill.raft.replica import Replica
from tidemill.raft.role import Role
from tidemill.raft.voters import Membership

ME = ReplicaKey(BrokerId(1), DirectoryId(b"d" * 16))
OTHER = ReplicaKey(BrokerId(2), DirectoryId(b"e" * 16))


class Log:
    """A log in memory whose first `last` entries have the term `term`."""

    def __init__(self, last: int = 0, term: int = 0) -> None:
        self.first_index = 1
        self.entries = [Entry(BATCH, b"", index=index, term=term) for index in range(1, last + 1)]

    @property
    def last_index(self) -> int:
        return len(self.entries)

    @property
    def last_append_time(self) -> int:
        return self.entries[-1].append_time if self.entries else 0

    def term_at(self, index: int) -> int:
        return self.entries[index - 1].term if index else 0

    def entry_at(self, index: int) -> Entry:
        return self.entries[index - 1]


class Alone(Replica):
    """The only voter of a shard.  It appends entries to its log immediately."""

    __slots__ = ("log",)

    def ready(self) -> Ready:
        found = super().ready()
        self.log.entries += found.entries
        return found


def opened(log: Log | None = None, *, term: int = 0, commit_index: int = 0) -> Alone:
    log = log or Log()
    replica = Alone(
        me=ME,
        memberships=[(0, Membership((ME,)))],
        term=term,
        voted_for=None,
        log=log,
        commit_index=commit_index,
        jitter_ms=lambda: 0,
    )
    replica.log = log
    return replica


def campaign(replica: Alone) -> Vote:
    replica.tick(1_000, 1_000, none_alive)
    vote = replica.ready().vote
    assert vote is not None
    return vote


def elected(replica: Alone) -> Alone:
    replica.advance(0, 0, campaign(replica))
    return replica


def test_a_single_voter_leads_only_when_its_vote_is_durable() -> None:
    """A single voter leads only once its vote is durable; otherwise, after a crash, it could vote again in a term that
    it had led.
    """
    replica = opened(term=3)

    vote = campaign(replica)

    assert Vote(4, ME) == vote
    assert Role.CANDIDATE is replica.role
    replica.advance(0, 0, vote)
    assert Role.LEADER is replica.role


def test_a_report_without_the_vote_does_not_win_the_election() -> None:
    """The host's report that earlier entries are durable, without the vote, does not win the election."""
    replica = opened(Log(5, 1), term=1)
    campaign(replica)

    replica.advance(1, 5)

    assert Role.CANDIDATE is replica.role


@pytest.mark.parametrize("other", [Vote(1, ME), Vote(2, None), Vote(2, OTHER)])
def test_a_report_of_another_vote_does_not_win_the_election(other: Vote) -> None:
    """The host's report that an earlier vote is durable does not win the election: the current vote must be durable."""
    replica = opened(term=1)
    campaign(replica)

    assert not replica.advance(0, 0, other)
    assert Role.CANDIDATE is replica.role


def test_a_leader_appends_a_no_op_first() -> None:
    """A new leader first appends a no-op, whose commit also commits all earlier entries."""
    replica = elected(opened(Log(5, 1), term=1))

    (entry,) = replica.ready().entries or []

    assert (6, 2, COMMAND, bytes((Command.NO_OP,))) == (entry.index, entry.term, entry.kind, entry.payload)
    assert not replica.is_confirmed


def test_only_an_entry_of_the_leaders_own_term_commits_by_counting() -> None:
    """Only an entry of the leader's own term commits by counting; earlier entries commit together with it."""
    replica = elected(opened(Log(5, 1), term=1))

    replica.ready()
    moved = replica.advance(1, 5)

    assert (False, 0) == (moved, replica.commit_index)
    assert replica.advance(2, 6)
    assert (6, True) == (replica.commit_index, replica.is_confirmed)


def test_a_report_of_an_entry_that_was_truncated_is_ignored() -> None:
    """The host's report that a truncated entry is durable is ignored: only entries in the log count (rule J9)."""
    replica = elected(opened(Log(5, 1), term=1))
    replica.ready()

    assert not replica.advance(1, 6)
    assert (5, 0) == (replica.durable_index, replica.commit_index)


def test_the_same_voter_leads_again_in_a_new_term() -> None:
    """
    After a restart, the same voter leads in a new term; otherwise one term could have two entries with the same index.
    """
    first = elected(opened())

    again = elected(opened(Log(1, first.term), term=first.term))

    assert first.term + 1 == again.term


def test_ready_returns_each_entry_once_and_in_order() -> None:
    """`propose` numbers entries, and `ready` returns each of them to the host once and in order."""
    replica = elected(opened())
    replica.ready()

    indexes = [replica.propose(Entry(BATCH, b"x")) for _ in range(3)]

    assert [2, 3, 4] == indexes
    assert replica.has_ready
    assert [2, 3, 4] == [entry.index for entry in replica.ready().entries or []]
    assert not replica.has_ready
    assert [] == replica.ready().entries


def test_nothing_commits_twice() -> None:
    """A report of entries that have already committed does not commit anything a second time."""
    replica = elected(opened())
    replica.ready()
    replica.advance(1, 1)

    assert not replica.advance(1, 1)
    assert not replica.advance(1, 0)
    assert 1 == replica.commit_index


def test_only_a_leader_may_propose() -> None:
    """`propose` asserts that the replica leads, which exposes callers that do not check this."""
    with pytest.raises(AssertionError):
        opened().propose(Entry(BATCH, b"x"))


def test_the_encoding_of_voters_and_log_starts_is_stable() -> None:
    """The encoding of voters and log starts never changes, because rows and checkpoints contain it."""
    voters = (ME, OTHER)

    assert (voters, 42) == decode_voters(encode_voters(voters))
    assert (7, 1 << 40) == read_log_start(log_start(7, 1 << 40, 0).payload or b"")
