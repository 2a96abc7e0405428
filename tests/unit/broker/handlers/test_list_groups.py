"""ListGroups over the wire: the groups of all partitions of the internal topic."""

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.group_member import STATIC, GroupMember, commit
from tidemill.model import errors
from tidemill.model.topic import OFFSETS_TOPIC
from tidemill.wire.messages.list_groups import Request


def world_with_groups() -> BrokerWorld:
    world = BrokerWorld(STATIC)
    world.create("flights")
    GroupMember(world, "read").stabilize()
    for group_id in ("a", "b", "c"):
        commit(world, "flights", 1, group_id=group_id)
    return world


@pytest.mark.parametrize("version", range(6))
def test_groups_of_every_partition_are_listed(version: int) -> None:
    """
    Each group hashes to one partition; the response contains the groups of all partitions.
    """
    world = world_with_groups()

    listed = world.ask(Request(), version)

    assert (errors.NONE, ["a", "b", "c", "read"]) == (listed.error_code, sorted(it.group_id for it in listed.groups))
    assert {"consumer", ""} == {it.protocol_type for it in listed.groups}


def test_states_and_types_are_filters() -> None:
    """
    KIP-518 and KIP-848: the filters ignore case, and without a filter all groups are listed.
    """
    world = world_with_groups()
    filters = [
        Request(states_filter=["stable"]),
        Request(types_filter=["classic"], states_filter=["EMPTY"]),
        Request(types_filter=["share"]),
    ]

    listed = [sorted((it.group_id, it.group_state) for it in world.ask(request).groups) for request in filters]

    assert [[("read", "Stable")], [("a", "Empty"), ("b", "Empty"), ("c", "Empty")], []] == listed


def test_listing_groups_creates_no_topic() -> None:
    """
    The internal topic does not exist until a group needs it.
    """
    world = BrokerWorld(STATIC)

    listed = world.ask(Request())

    assert (errors.NONE, []) == (listed.error_code, list(listed.groups))
    assert world.broker.image.topic(OFFSETS_TOPIC) is None
