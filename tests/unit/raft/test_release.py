"""A replica may be closed only if no leader counts on it, and a member that was removed returns in a later term."""

import pytest

from tests.unit.raft.replica_world import VOTERS, A, B, C, World
from tidemill.raft.messages import Message, Released, ReleaseRequest
from tidemill.raft.voters import IllegalChange, Membership

WITHOUT_C = Membership((A, B))


def led_by_a() -> World:
    world = World()
    world.pass_time(2_000)
    assert [True, False, False] == world.leads
    return world


def change(world: World, membership: Membership) -> None:
    world.replicas[A].change_membership(membership, world.now_ms)
    world.execute(A)


def answer_to_c(world: World) -> Message | None:
    """Return what A answers when C asks for its release."""
    replica = world.replicas[A]
    replica.receive(C, ReleaseRequest(term=replica.term))
    return next((message for to, message in replica.ready().messages if (to, type(message)) == (C, Released)), None)


def test_a_member_is_not_released() -> None:
    """The leader needs it, whatever the plan is."""
    assert answer_to_c(led_by_a()) is None


def test_a_removal_that_is_not_committed_releases_nobody() -> None:
    """Until it is committed, the leader may fail, and the others may need the vote of the removed member."""
    world = led_by_a()
    world.paused = {B}
    change(world, WITHOUT_C)
    world.stabilize()
    before = answer_to_c(world)

    world.paused = set()
    world.stabilize()
    after = answer_to_c(world)

    assert before is None
    assert after == Released(term=world.replicas[A].term, index=world.replicas[A].commit_index)
    world.replicas[C].receive(A, after)
    assert world.replicas[C].is_released(after)


def test_a_leader_that_is_not_confirmed_releases_nobody() -> None:
    """It may lack a later membership of which the replica is a member."""
    world = led_by_a()
    change(world, WITHOUT_C)
    world.stabilize()
    world.paused = {A}
    world.pass_ms(B, 10_000)
    world.replicas[A].term_start_index = world.replicas[A].commit_index + 1

    assert answer_to_c(world) is None


def test_an_old_release_does_not_count() -> None:
    """Neither from an earlier term, nor from before the entry with which the same leader has added the replica."""
    world = led_by_a()
    replica, term = world.replicas[C], world.replicas[A].term
    change(world, Membership((A, B), (C,)))
    world.stabilize()
    added_at = world.logs[C].last_index

    assert not replica.is_released(Released(term=term - 1, index=added_at + 1))
    assert not replica.is_released(Released(term=term, index=added_at - 1))
    assert replica.is_released(Released(term=term, index=added_at + 1))


def test_an_old_release_does_not_count_once_the_addition_has_left_memory() -> None:
    """The term of the addition is not known any more, but it is that of the entry before the first one in memory."""
    world = led_by_a()
    replica, log, term = world.replicas[C], world.logs[C], world.replicas[A].term
    change(world, Membership((A, B), (C,)))
    world.stabilize()
    added_at = log.last_index
    world.propose(A)
    world.propose(A)
    world.stabilize()
    log.first_index = log.last_index

    assert added_at < log.first_index - 1
    assert not replica.is_released(Released(term=term, index=added_at - 1))
    assert replica.is_released(Released(term=term, index=added_at + 1))


def test_the_release_of_a_later_term_counts_although_the_addition_has_left_memory() -> None:
    """
    A leader of a later term has not added the replica, which holds no entry of that term.  It may name an old index: a
    broker that restarts does not know the index of a membership in its checkpoint.
    """
    world = led_by_a()
    replica, log, term = world.replicas[C], world.logs[C], world.replicas[A].term
    change(world, Membership((A, B), (C,)))
    world.stabilize()
    added_at = log.last_index
    world.propose(A)
    world.stabilize()
    log.first_index = log.last_index + 1
    message = Released(term=term + 1, index=0)
    replica.receive(A, message)

    assert added_at < log.first_index - 1
    assert replica.is_released(message)


def test_a_removed_member_returns_in_a_later_term() -> None:
    """It returns with an empty log, and a late answer of its former replica must not count."""
    world = led_by_a()
    change(world, WITHOUT_C)
    world.stabilize()
    leader, term = world.replicas[A], world.replicas[A].term
    with pytest.raises(IllegalChange, match="return in the term in which it was removed"):
        leader.change_membership(Membership((A, B), (C,)), world.now_ms)

    leader.begin_term()
    world.execute(A)
    world.stabilize()
    change(world, Membership((A, B), (C,)))
    world.stabilize()

    assert (True, term + 1) == (leader.leads, leader.term)
    assert leader.commit_index == leader.last_index
    assert {C, *leader.membership.voters} == {*VOTERS}


def test_a_leader_answers_its_clients_before_it_begins_a_term() -> None:
    """Entries that are not committed would have an unknown outcome."""
    world = led_by_a()
    leader, term = world.replicas[A], world.replicas[A].term
    world.paused = {B, C}
    world.propose(A)
    leader.begin_term()
    world.execute(A)
    before = (leader.term, leader.may_propose)
    world.paused = set()
    world.stabilize()

    assert (term, False) == before
    assert (term + 1, True) == (leader.term, leader.may_propose)
