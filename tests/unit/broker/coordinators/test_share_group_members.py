"""Share groups in the group coordinator on its host: the log, the cluster's topics and configuration, and a full disk.

The requests go to the host directly, because the broker still refuses ShareGroupHeartbeat.
"""

from typing import Any

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.group_member import STATIC
from tests.unit.broker.handlers.test_incremental_alter_configs import asked
from tidemill.broker.coordinators.group_coordinator import ask_group
from tidemill.coordinator.share_group.requests import DescribeShareGroups, ShareHeartbeat, ShareOpen
from tidemill.metadata.topics import DeleteTopics
from tidemill.model import errors
from tidemill.model.offset_reset import EARLIEST, LATEST

GROUP = 32


def world_with_topics(**static: str) -> BrokerWorld:
    world = BrokerWorld({**STATIC, **static})
    world.create("flights", partitions=4)
    world.create("tides", partitions=2)
    return world


def ask(world: BrokerWorld, make: Any, **fields: Any) -> Any:
    replies: list[Any] = []
    ask_group(world.broker.coordinators, "g", make(waiter=replies.append, **fields))
    world.stabilize()
    (reply,) = replies
    return reply


def beat(world: BrokerWorld, epoch: int, *topics: str, member_id: str = "m") -> Any:
    fields = {"group_id": "g", "member_id": member_id, "epoch": epoch, "topics": topics or None, "client_id": "app"}
    return ask(world, ShareHeartbeat, **fields)


def assignment(world: BrokerWorld) -> dict[str, tuple[int, ...]]:
    (group,) = ask(world, DescribeShareGroups, group_ids=("g",)).groups
    return {topic.name: topic.partitions for topic in group.members[0].assignment}


def test_a_member_survives_a_kill() -> None:
    """
    When a heartbeat has been answered, the member is in the log: after a kill, the next process knows the member, its
    epoch and its assignment.
    """
    world = world_with_topics()
    joined = beat(world, 0, "flights")

    again = world.restarted()
    again.stabilize()
    taken = beat(again, 1)

    assert (errors.NONE, 1) == (joined.error_code, joined.epoch)
    assert (errors.NONE, 1, None) == (taken.error_code, taken.epoch, taken.assignment)
    assert {"flights": (0, 1, 2, 3)} == assignment(again)


def test_a_session_ends_on_the_hosts_timer() -> None:
    """A silent member is removed when its session expires, even if no request arrives."""
    world = world_with_topics()
    beat(world, 0, "flights")
    world.pass_time(44_000)
    in_time = beat(world, 1).error_code

    world.pass_time(46_000)

    assert (errors.NONE, errors.UNKNOWN_MEMBER_ID) == (in_time, beat(world, 1).error_code)


def test_a_deleted_topic_leaves_the_assignment() -> None:
    """
    When a topic is deleted, the host tells the coordinator, and the member's next heartbeat leads to an assignment
    without the topic.
    """
    world = world_with_topics()
    beat(world, 0, "flights", "tides")

    world.broker.controller.submit(DeleteTopics(topics=("tides",)))
    world.stabilize()
    world.pass_time(1_100)
    beat(world, 1)

    assert {"flights": (0, 1, 2, 3)} == assignment(world)


def test_the_groups_configuration_is_obeyed_at_once() -> None:
    """
    The configuration of a share group is read from the current cluster image for each request, so a change applies at
    the next request.
    """
    world = world_with_topics(**{"group.share.heartbeat.interval.ms": "6000"})
    topic = world.broker.image.topic("flights")
    assert topic is not None
    fields = {"group_id": "g", "topic_id": topic.topic_id, "partition": 0}
    before = (beat(world, 0, "flights").heartbeat_interval_ms, ask(world, ShareOpen, **fields).start)

    for key, value in (("share.heartbeat.interval.ms", "7000"), ("share.auto.offset.reset", "earliest")):
        assert errors.NONE == asked(world, GROUP, "g", key, value).error_code
    after = (beat(world, 1).heartbeat_interval_ms, ask(world, ShareOpen, **fields).start)

    assert ((6_000, LATEST), (7_000, EARLIEST)) == (before, after)


def test_the_size_of_a_group_is_bounded() -> None:
    """A share group that has group.share.max.size members refuses a further member."""
    world = world_with_topics(**{"group.share.max.size": "1"})
    beat(world, 0, "flights")

    assert errors.GROUP_MAX_SIZE_REACHED == beat(world, 0, "flights", member_id="n").error_code


def test_a_full_disk_refuses_new_members_and_keeps_the_others() -> None:
    """
    While the disk is full, new members are refused.  Heartbeats that append nothing are answered, so the existing
    members are still there when the disk has space again.
    """
    world = world_with_topics()
    beat(world, 0, "flights")
    world.disk.free_bytes = 1 << 20
    world.broker.tick()

    refused = beat(world, 0, "flights", member_id="n").error_code
    for _ in range(4):
        world.pass_time(30_000)
        assert errors.NONE == beat(world, 1).error_code
    world.disk.free_bytes = None
    world.broker.tick()
    world.pass_time(2_000)

    assert errors.COORDINATOR_NOT_AVAILABLE == refused
    assert errors.NONE == beat(world, 1).error_code
