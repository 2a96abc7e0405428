"""DescribeGroups over the wire."""

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.group_member import FLIGHTS, STATIC, GroupMember
from tidemill.model import errors
from tidemill.wire.messages.describe_groups import Request


def test_a_group_is_described_with_its_members() -> None:
    """
    A stable group is described with the metadata and the assignment of each member.
    """
    world = BrokerWorld(STATIC)
    member = GroupMember(world, instance_id="one").stabilize()

    (group,) = world.ask(Request(groups=["g"])).groups

    assert ("g", errors.NONE, "Stable", "consumer", "range") == (
        group.group_id,
        group.error_code,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
    )
    assert [(member.member_id, "one", FLIGHTS, b"all of it")] == [
        (it.member_id, it.group_instance_id, it.member_metadata, it.member_assignment) for it in group.members
    ]


def test_an_unknown_group_is_dead_or_not_found() -> None:
    """
    KIP-1043: the response contains GROUP_ID_NOT_FOUND and a message in v6, and the state Dead in older versions.
    """
    world = BrokerWorld(STATIC)

    (old,) = world.ask(Request(groups=["?"]), 5).groups
    (new,) = world.ask(Request(groups=["?"]), 6).groups

    assert (errors.NONE, "Dead") == (old.error_code, old.group_state)
    assert (errors.GROUP_ID_NOT_FOUND, "Dead", "Group ? not found.") == (
        new.error_code,
        new.group_state,
        new.error_message,
    )


def test_groups_are_described_in_request_order() -> None:
    """
    The descriptions are in the order of the request, and an error in one group does not affect the others.
    """
    world = BrokerWorld(STATIC)
    GroupMember(world, "b").stabilize()

    groups = world.ask(Request(groups=["a", "b", "c"])).groups

    assert [("a", "Dead"), ("b", "Stable"), ("c", "Dead")] == [(it.group_id, it.group_state) for it in groups]
    assert [] == list(world.ask(Request(groups=())).groups)


def test_a_group_without_an_available_coordinator_has_its_error() -> None:
    """
    The description has the error COORDINATOR_NOT_AVAILABLE, but neither a state nor members.
    """
    world = BrokerWorld(STATIC)
    world.broker.coordinators.stop()

    (group,) = world.ask(Request(groups=["g"])).groups

    assert (errors.COORDINATOR_NOT_AVAILABLE, "", []) == (group.error_code, group.group_state, list(group.members))
