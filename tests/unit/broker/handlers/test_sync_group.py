"""SyncGroup over the wire."""

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.group_member import STATIC, GroupMember
from tidemill.model import errors
from tidemill.wire.messages import join_group
from tidemill.wire.messages.sync_group import API, Request


def test_each_member_gets_its_assignment_from_the_leader() -> None:
    """
    Each member gets the assignment that the group's leader has sent.  From v5 on, the response also names the protocol
    (KIP-559).
    """
    member = GroupMember(BrokerWorld(STATIC))
    member.join()

    synced = member.sync(own=b"partition 0")

    assert (errors.NONE, "consumer", "range", b"partition 0") == (
        synced.error_code,
        synced.protocol_type,
        synced.protocol_name,
        synced.assignment,
    )


def test_a_follower_waits_for_the_leader() -> None:
    """
    The follower's SyncGroup waits until the assignment is in the log.
    """
    world = BrokerWorld(STATIC)
    leader = GroupMember(world).stabilize()
    follower = GroupMember(world)
    follower.join()
    leader.join()
    follower.took(follower.client.answer(join_group.API, 9))
    parked = follower.sync()

    request = {"own": b"one", follower.member_id: b"two"}
    led = leader.sync(**request)

    assert (None, b"one") == (parked, led.assignment)
    assert b"two" == follower.client.answer(API, 5).assignment


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_version_five_requires_the_protocol(missing: str) -> None:
    """
    A v5 request that lacks the protocol type or name is refused, as in Kafka.
    """
    world = BrokerWorld(STATIC)
    fields = {"protocol_type": "consumer", "protocol_name": "range", missing: None}
    request = Request(group_id="g", generation_id=1, member_id="m", assignments=(), **fields)

    codes = [world.ask(request, version).error_code for version in (5, 4)]

    assert [errors.INCONSISTENT_GROUP_PROTOCOL, errors.UNKNOWN_MEMBER_ID] == codes
