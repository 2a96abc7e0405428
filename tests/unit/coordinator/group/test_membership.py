"""SyncGroup, Heartbeat, LeaveGroup, and session timeouts."""

import pytest

from tests.unit.coordinator.group.group_world import World, leaving
from tidemill.coordinator.group.requests import LeavingMember
from tidemill.model import errors


def joined(world, count=2):
    joins = [world.join() for _ in range(count)]
    world.wait(3_000 * (count + 1))
    return [world.answer(join) for join in joins]


def test_followers_wait_for_the_leaders_assignment():
    """
    All members are answered once the leader has sent the assignments.  A member that the leader has left out gets an
    empty one.
    """
    world = World()
    leader, follower, forgotten = joined(world, 3)
    waits, waits_too = world.sync(follower), world.sync(forgotten)

    own = world.sync(leader, assignments=((leader.member_id, b"L"), (follower.member_id, b"F")))

    assert own.assignment == b"L"
    assert world.answer(waits).assignment == b"F"
    assert (world.answer(waits_too).assignment, world.answer(waits_too).protocol_name) == (b"", "range")


def test_a_late_follower_fetches_its_assignment_from_a_stable_group():
    """A follower can fetch its assignment any number of times."""
    world = World()
    _, follower = world.stable(2)

    assert world.sync(follower).assignment == b"\x01"
    assert world.sync(follower).assignment == b"\x01"


@pytest.mark.parametrize(
    ("fields", "error_code"),
    [
        ({"group_id": ""}, errors.INVALID_GROUP_ID),
        ({"group_id": "other"}, errors.UNKNOWN_MEMBER_ID),
        ({"member_id": "nobody"}, errors.UNKNOWN_MEMBER_ID),
        ({"instance_id": "desk"}, errors.UNKNOWN_MEMBER_ID),
        ({"generation": 7}, errors.ILLEGAL_GENERATION),
    ],
)
def test_only_members_of_this_generation_may_sync_and_send_heartbeats(fields, error_code):
    """
    SyncGroup and Heartbeat are refused unless they come from a member of the current generation; the same checks apply
    to both.
    """
    world = World()
    (member,) = world.stable()

    assert world.sync(member, **fields).error_code == error_code
    assert world.heartbeat(member, **fields) == error_code


@pytest.mark.parametrize("fields", [{"protocol_type": "connect"}, {"protocol_name": "sticky"}])
def test_a_sync_with_another_protocol_is_refused(fields):
    """From v5 on, SyncGroup names the protocol (KIP-559), and is refused if the group has selected another one."""
    world = World()
    (member,) = world.stable()

    assert world.sync(member, **fields).error_code == errors.INCONSISTENT_GROUP_PROTOCOL


def test_syncs_and_heartbeats_report_a_rebalance():
    """During a rebalance, SyncGroup and Heartbeat get an error that tells the member to join again."""
    world = World()
    (member,) = world.stable()
    world.join()

    assert world.heartbeat(member) == errors.REBALANCE_IN_PROGRESS
    assert world.sync(member).error_code == errors.REBALANCE_IN_PROGRESS


def test_a_heartbeat_succeeds_while_the_leader_assigns():
    """
    A heartbeat succeeds while the leader computes the assignment, because consumers start to send heartbeats as soon as
    their join is answered.
    """
    world = World()
    _, follower = joined(world)

    assert world.heartbeat(follower) == errors.NONE


def test_members_that_never_sync_are_removed():
    """
    Such members are removed after the rebalance timeout, and those that wait for an assignment are told to join again.
    """
    world = World()
    joins = [world.join(session_timeout_ms=100_000) for _ in range(2)]
    world.wait(9_000)
    leader, follower = map(world.answer, joins)
    waits = world.sync(follower)

    world.wait(60_000)

    assert world.answer(waits).error_code == errors.REBALANCE_IN_PROGRESS
    assert world.heartbeat(leader) == errors.UNKNOWN_MEMBER_ID
    assert world.heartbeat(follower) == errors.REBALANCE_IN_PROGRESS


def test_a_member_without_heartbeats_is_removed_when_its_session_ends():
    """Each heartbeat extends the session.  When a member is removed, all others are told to join again."""
    world = World()
    silent, lively = world.stable(2)
    world.wait(9_000)
    world.heartbeat(lively)

    world.wait(1_000)

    assert world.heartbeat(silent) == errors.UNKNOWN_MEMBER_ID
    assert world.heartbeat(lively) == errors.REBALANCE_IN_PROGRESS


def test_a_commit_renews_the_session():
    """An offset commit of a member renews its session, because a consumer that commits is alive."""
    world = World()
    (member,) = world.stable()
    world.wait(9_000)

    world.commit(generation=member.generation, member_id=member.member_id)
    world.wait(9_000)

    assert world.heartbeat(member) == errors.NONE


def test_leaving_starts_a_rebalance_at_once():
    """
    When a member leaves, a rebalance starts immediately, and the other members do not have to wait until its session
    expires.
    """
    world = World()
    leader, follower = world.stable(2)

    codes = world.leave(leaving(leader))
    again = world.join(member_id=follower.member_id)

    assert codes == [errors.NONE]
    assert (again.leader, again.generation) == (follower.member_id, 2)


def test_when_the_last_member_leaves_the_empty_group_is_logged():
    """The retention of the group's offsets starts when the group becomes empty."""
    world = World()
    (member,) = world.stable()

    world.leave(leaving(member))
    world.restart()

    assert world.state() == "Empty"
    assert world.describe().protocol_type == "consumer"


def test_each_member_of_a_leave_request_gets_its_own_error_code():
    """
    The request names a member by its member id, or a static member by its instance id alone, as administrators do
    (KIP-345).
    """
    world = World()
    world.static("tower", "desk")
    pending = world.join(must_know_member_id=True)

    codes = world.leave(
        LeavingMember(instance_id="desk"),
        LeavingMember(instance_id="nobody"),
        LeavingMember(member_id="nobody"),
        LeavingMember(member_id="nobody", instance_id="tower"),
        LeavingMember(member_id=pending.member_id),
    )

    assert codes == [
        errors.NONE,
        errors.UNKNOWN_MEMBER_ID,
        errors.UNKNOWN_MEMBER_ID,
        errors.FENCED_INSTANCE_ID,
        errors.NONE,
    ]


def test_leaving_an_unknown_group_fails_for_every_member():
    """
    In a LeaveGroup request to an unknown group, the error is in each member and not in the response itself, as in
    Kafka.
    """
    world = World()

    assert world.leave(LeavingMember(member_id="m"), group_id="other") == [errors.UNKNOWN_MEMBER_ID]


def test_removing_a_member_answers_its_parked_request():
    """When a member is removed, its parked request is answered, even if it is a SyncGroup and not a JoinGroup."""
    world = World()
    joins = [world.join(instance_id=name) for name in ("tower", "desk")]
    world.wait(9_000)
    waits = world.sync(world.answer(joins[1]))

    world.leave(LeavingMember(instance_id="desk"))

    assert world.answer(waits).error_code == errors.UNKNOWN_MEMBER_ID


def test_a_second_sync_of_a_member_answers_the_first():
    """
    If a member sends SyncGroup again while its first one is parked, the first one is answered, too: every request gets
    a response, even if its connection has been closed.
    """
    world = World()
    _, follower = joined(world)
    waits = world.sync(follower)

    again = world.sync(follower)

    assert world.answer(waits).error_code == errors.REBALANCE_IN_PROGRESS
    assert world.answer(again) is None
