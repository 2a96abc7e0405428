"""Heartbeat over the wire."""

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.group_member import SESSION_MS, STATIC, GroupMember
from tidemill.model import errors
from tidemill.wire.messages.heartbeat import Request


def test_a_heartbeat_renews_the_session() -> None:
    """
    Each heartbeat restarts the session timeout.
    """
    world = BrokerWorld(STATIC)
    member = GroupMember(world).stabilize()

    codes = []
    for _ in range(3):
        world.pass_time(SESSION_MS - 1_000)
        codes.append(member.heartbeat())

    assert [errors.NONE] * 3 == codes


def test_the_response_tells_of_a_rebalance() -> None:
    """
    REBALANCE_IN_PROGRESS tells the member to join again.
    """
    world = BrokerWorld(STATIC)
    member = GroupMember(world).stabilize()
    GroupMember(world).join()

    code = member.heartbeat()

    assert errors.REBALANCE_IN_PROGRESS == code


@pytest.mark.parametrize("version", range(5))
def test_an_unknown_member_is_refused_in_every_version(version: int) -> None:
    """
    An unknown group has no members, so a heartbeat to it is answered with UNKNOWN_MEMBER_ID.
    """
    world = BrokerWorld(STATIC)

    answered = world.ask(Request(group_id="g", generation_id=1, member_id="m"), version)

    assert errors.UNKNOWN_MEMBER_ID == answered.error_code
