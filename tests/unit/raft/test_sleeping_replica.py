"""A sleeping replica gets no ticks, so periods that begin when a message wakes it are measured from its next tick."""

import pytest

from tests.unit.raft.replica_world import A, B, C, World
from tidemill.raft.messages import TimeoutNow
from tidemill.raft.role import Role


@pytest.mark.parametrize("slept_ms", [0, 60_000])
def test_the_target_of_a_transfer_does_not_abandon_its_election_at_its_first_tick(slept_ms: int) -> None:
    """
    The target of a transfer continues its election even if its first tick comes before the others' responses.  If
    the election were measured from the last tick before the replica fell asleep, it would already be over.
    """
    world = World()
    world.pass_time(2_000)
    assert not any(it.needs_tick for it in world.replicas.values())
    world.now_ms += slept_ms

    world.replicas[A].transfer_leadership(B)
    world.execute(A)
    timeout_now = next(it for it in world.mail if isinstance(it[2], TimeoutNow))
    world.mail.remove(timeout_now)
    world.replicas[B].receive(A, timeout_now[2])
    world.execute(B)
    term = world.replicas[B].term
    world.pass_ms(B, 10)
    role = world.replicas[B].role
    world.stabilize()

    assert (Role.CANDIDATE, Role.LEADER, term) == (role, world.replicas[B].role, world.replicas[B].term)


def test_a_voter_gives_its_candidate_time_before_it_campaigns() -> None:
    """
    A voter that was asleep must not campaign at its first tick against the candidate for which it has just voted.
    """
    world = World()
    world.pass_time(2_000)
    world.now_ms += 60_000
    world.replicas[A].transfer_leadership(B)
    world.execute(A)
    while world.replicas[C].voted_for != B:
        world.step()
    world.pass_ms(C, 10)

    assert (Role.FOLLOWER, B) == (world.replicas[C].role, world.replicas[C].voted_for)


def test_a_message_sent_just_before_a_tick_is_not_retried() -> None:
    """
    A message sent just before a tick is not retried at that tick, even after an hour without messages.
    """
    world = World()
    world.pass_time(2_000)
    world.now_ms += 3_600_000
    world.propose(A)
    sent = len(world.mail)

    world.pass_ms(A, 10)

    assert sent == len(world.mail)


def test_append_time_does_not_go_back_after_a_leader_change() -> None:
    """
    Append times do not go back after a leader change, even though the new leader's last tick may be older than the
    entries that it has received.
    """
    world = World()
    world.pass_time(2_000)
    world.propose(A, append_time=world.now_ms + 50_000)
    world.stabilize()
    world.replicas[A].transfer_leadership(B)
    world.execute(A)
    world.stabilize()

    times = [it.append_time for it in world.logs[B].entries]
    assert world.replicas[B].leads
    assert sorted(times) == times
