"""The state that the simulation compares between replicas, and the position at which it must be the same."""

import pytest

from tests.unit.shard.shard_side import LEADER, LEARNER, Side, exchange
from tidemill.raft.entry import COMMAND, Entry
from tidemill.raft.messages import AppendEntries, AppendEntriesResponse
from tidemill.simulation.cluster.cluster_check import LogPosition, ReplicaState, replica_state

NOW_MS_MAX = 60_000  # by then, a shard with one voter has elected it


@pytest.fixture
def leader() -> Side:
    side = Side(LEADER)
    side.alive = {LEARNER}
    side.tick()
    return side


@pytest.fixture
def learner(leader: Side) -> Side:
    """A learner that has every entry of the leader."""
    side = Side(LEARNER)
    leader.write(0, b"in the first term")
    exchange(leader, side)
    return side


def state(side: Side, number: int = 0) -> ReplicaState:
    return replica_state(side.store, side.shard.partitions[number])


def begin_term(leader: Side) -> None:
    """Let the leader lead a later term, whose first entry is neither on its disk nor on the learner."""
    shard, store = leader.shard, leader.store
    last_index = shard.log.last_index
    shard.receive(LEARNER, AppendEntriesResponse(term=shard.replica.term + 1))
    assert not shard.replica.leads
    while shard.log.last_index == last_index:
        leader.now_ms += 500
        assert leader.now_ms < NOW_MS_MAX, "the leader was not elected again"
        shard.tick(leader.now_ms, leader.now_ms)
        block = store.gather() if shard.log.last_index == last_index else None
        if block is not None:
            block.write(store.journal)
            for report in store.written(block):
                shard.advance(report)


def test_replicas_with_the_same_log_have_the_same_state(leader: Side, learner: Side) -> None:
    """Replicas with the same log have the same state.  A log that starts later is at another position."""
    log = leader.shard.log

    assert LogPosition(0, 1, 1, log.last_index, log.last_index, 1) == state(leader).position
    assert [(1, 0)] == state(leader).epochs
    assert state(learner) == state(leader)

    leader.store.trim(log, 0, 1)

    assert state(learner).position._replace(log_start=1) == state(leader).position
    assert [(1, 1)] == state(leader).epochs


def test_the_first_entry_of_a_term_sets_replicas_apart_before_it_commits(leader: Side, learner: Side) -> None:
    """
    The entry begins an epoch and changes no offset.  So a replica without it has other epochs: it lags behind, but does
    not contradict.  Once it has the entry, the states are equal again.
    """
    begin_term(leader)

    ahead, behind = state(leader), state(learner)
    term, last_index = leader.shard.replica.term, leader.shard.log.last_index
    assert [(1, 0), (term, 1)] == ahead.epochs and [(1, 0)] == behind.epochs
    assert behind.position._replace(last_index=last_index, last_term=term) == ahead.position
    assert behind.position != ahead.position

    leader.resume()
    exchange(leader, learner)

    assert state(learner) == state(leader)


def test_entries_of_two_terms_at_one_index_set_replicas_apart(leader: Side, learner: Side) -> None:
    """
    Two leaders may append the first entries of their terms at the same index.  Until one of them is truncated, the
    replicas have other epochs, so the index alone does not tell their logs apart.
    """
    begin_term(leader)
    term, last_index = leader.shard.replica.term, leader.shard.log.last_index
    older = Entry(COMMAND, b"", index=last_index, term=term - 1)
    learner.shard.receive(
        LEADER,
        AppendEntries(term=term - 1, prev_index=last_index - 1, prev_term=1, entries=(older,), commit_index=0),
    )

    ours, theirs = state(leader), state(learner)
    assert [(1, 0), (term, 1)] == ours.epochs and [(1, 0), (term - 1, 1)] == theirs.epochs
    assert ours.position._replace(last_term=term - 1) == theirs.position
    assert ours.position != theirs.position
