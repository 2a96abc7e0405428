"""DeleteGroups over the wire."""

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.group_member import STATIC, GroupMember, commit, fetched
from tidemill.model import errors
from tidemill.wire.messages.delete_groups import Request


def test_each_group_has_its_own_error() -> None:
    """
    An empty group is deleted together with its offsets, and stays deleted after a restart.  A group with members is
    kept.
    """
    world = BrokerWorld(STATIC)
    world.create("flights")
    GroupMember(world, "used").stabilize()
    commit(world, "flights", 1, group_id="empty")

    results = world.ask(Request(groups_names=["used", "empty", "none", "empty"])).results

    assert [("used", errors.NON_EMPTY_GROUP), ("empty", errors.NONE), ("none", errors.GROUP_ID_NOT_FOUND)] == [
        (it.group_id, it.error_code) for it in results
    ]
    again = world.restarted()
    again.stabilize()
    assert ({}, {}) == (fetched(world, "empty"), fetched(again, "empty"))


def test_a_request_without_groups_is_answered() -> None:
    """
    The response to a request that names no groups contains no results.
    """
    assert [] == list(BrokerWorld(STATIC).ask(Request(groups_names=())).results)
