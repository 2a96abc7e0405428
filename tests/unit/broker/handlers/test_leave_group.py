"""LeaveGroup over the wire, with one member or several."""

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.group_member import STATIC, GroupMember
from tidemill.model import errors
from tidemill.wire.messages.leave_group import Request

Member = Request.Member


def test_one_member_leaves_in_old_versions() -> None:
    """
    Before v3, a request names one member, and the error in the response is that of this member.
    """
    world = BrokerWorld(STATIC)
    member = GroupMember(world).stabilize()

    codes = [world.ask(Request(group_id="g", member_id=member.member_id), 2).error_code for _ in range(2)]

    assert [errors.NONE, errors.UNKNOWN_MEMBER_ID] == codes


def test_many_members_leave_each_with_its_own_error() -> None:
    """
    KIP-345: an unknown member does not affect the others, and a static member may be named by its instance id alone.
    """
    world = BrokerWorld(STATIC)
    member = GroupMember(world, instance_id="one").stabilize()

    left = world.ask(
        Request(group_id="g", members=[Member(member_id="nobody"), Member(member_id="", group_instance_id="one")])
    )

    assert (errors.NONE, [("nobody", errors.UNKNOWN_MEMBER_ID), ("", errors.NONE)]) == (
        left.error_code,
        [(it.member_id, it.error_code) for it in left.members],
    )
    assert errors.UNKNOWN_MEMBER_ID == member.heartbeat()


def test_an_unavailable_coordinator_is_reported_in_every_version() -> None:
    """
    If the coordinator is unavailable, all versions have the error in the same field of the response.
    """
    world = BrokerWorld(STATIC)
    world.broker.coordinators.stop()

    codes = [
        world.ask(Request(group_id="g", member_id="m"), 0).error_code,
        world.ask(Request(group_id="g", members=[Member(member_id="m")])).error_code,
    ]

    assert [errors.COORDINATOR_NOT_AVAILABLE] * 2 == codes
