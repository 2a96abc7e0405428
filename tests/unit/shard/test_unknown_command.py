"""A follower receives a command that its program does not know, because a newer version wrote it."""

import pytest

from tests.unit.shard.test_install import LEADER, LEARNER, Side, exchange
from tests.unit.storage.machine.test_shard_machine import recorded
from tidemill.raft.entry import COMMAND, Entry, no_op
from tidemill.raft.message_codec import decode, encode
from tidemill.raft.messages import AppendEntries, AppendEntriesResponse
from tidemill.storage.machine.default_machines import default_machines

EIGHT = 8


def propose(leader: Side) -> int:
    index = leader.shard.propose(Entry(COMMAND, bytes((EIGHT,))))
    leader.resume()
    return index


def deliver_entries(leader: Side, learner: Side) -> None:
    """Deliver what the leader has sent, and drop the responses."""
    while leader.out:
        learner.shard.receive(LEADER, decode(memoryview(leader.out.popleft())))
        learner.resume()
    learner.out.clear()


@pytest.fixture
def leader() -> Side:
    """A leader that runs a newer version, which knows command 8 and has one more shard state machine, with state."""
    machine, it = recorded()
    machine.state = {0: b"state"}
    side = Side(LEADER, machines=default_machines(1_000, it))
    side.alive = {LEARNER}
    side.tick()
    return side


def test_a_follower_takes_the_entries_before_an_unknown_command(leader: Side) -> None:
    """
    A follower takes the entries before an unknown command, acknowledges nothing from the command on, and counts as
    damaged.
    """
    learner = Side(LEARNER)
    exchange(leader, learner, turns=2)
    start = learner.shard.log.last_index
    leader.shard.propose(no_op(leader.now_ms))
    index = propose(leader)
    leader.shard.propose(no_op(leader.now_ms))
    log = leader.shard.log
    append = AppendEntries(
        term=log.term,
        prev_index=start,
        prev_term=log.term_at(start),
        entries=tuple(log.entry_at(at) for at in range(start + 1, index + 2)),
        commit_index=index + 1,
    )
    learner.sent.clear()

    learner.shard.receive(LEADER, decode(memoryview(b"".join(encode(append)))))
    learner.resume()

    log = learner.shard.log
    acknowledged = [it.match_index for it in learner.sent if isinstance(it, AppendEntriesResponse)]
    assert (start + 2, index - 1) == (index, log.last_index)
    assert max(log.commit_index, *acknowledged, 0) < index
    assert learner.shard.replica.is_damaged
    assert f"entry {index} of shard 1 is command 8, which this program does not know: a newer" in str(log.damage)


def test_a_follower_stays_stopped_behind_an_unknown_command(leader: Side) -> None:
    """
    A follower stays stopped at an unknown command: a snapshot of the leader does not help, because it contains a
    section that the follower does not know either.
    """
    learner = Side(LEARNER)
    leader.write(0, b"known")
    exchange(leader, learner, turns=2)
    index = propose(leader)
    exchange(leader, learner)
    leader.write(0, b"behind it")
    exchange(leader, learner)

    assert index - 1 == learner.shard.log.last_index
    assert "state machine 90, version 1" in str(learner.shard.log.damage)


def test_a_newer_version_goes_on_from_where_the_older_one_stopped(leader: Side) -> None:
    """The refusal is not written to the disk, so after a restart a newer program accepts the command."""
    learner = Side(LEARNER)
    exchange(leader, learner, turns=2)
    index = propose(leader)
    deliver_entries(leader, learner)
    refused = learner.shard.replica.is_damaged

    again = Side(LEARNER, learner.disk.after_kill(), default_machines(1_000, recorded()[1]))
    leader.shard.peer_reconnected(LEARNER)
    exchange(leader, again)

    assert (True, None) == (refused, again.shard.log.damage)
    assert again.shard.log.commit_index >= index


def test_a_stale_leader_cannot_stop_a_replica(leader: Side) -> None:
    """A stale leader's entries are rejected because of their term, whatever they contain."""
    learner = Side(LEARNER)
    exchange(leader, learner, turns=2)
    log, term = learner.shard.log, learner.shard.replica.term
    entry = Entry(COMMAND, bytes((EIGHT,)), index=log.last_index + 1, term=term - 1)
    stale = AppendEntries(term=term - 1, prev_index=log.last_index, prev_term=term, entries=(entry,), commit_index=0)

    learner.shard.receive(LEADER, stale)

    assert (False, None) == (learner.shard.replica.is_damaged, log.damage)
