"""OffsetDelete over the wire."""

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.group_member import STATIC, GroupMember, commit, fetched
from tidemill.model import errors
from tidemill.wire.messages.offset_delete import Request


def deleting(topic: str, *partitions: int, group_id: str = "g") -> Request:
    named = [Request.Topic.Partition(partition_index=number) for number in partitions]
    return Request(group_id=group_id, topics=[Request.Topic(name=topic, partitions=named)])


def world_with_commits() -> BrokerWorld:
    world = BrokerWorld(STATIC)
    world.create("flights", partitions=2)
    world.create("tides")
    commit(world, "flights", 1, 2)
    commit(world, "tides", 3)
    return world


def test_offsets_are_deleted_one_by_one() -> None:
    """
    Each partition of a request has its own result: an error for a partition that does not exist does not affect the
    others (KIP-496).
    """
    world = world_with_commits()

    answered = world.ask(deleting("flights", 1, 2))

    unknown = errors.UNKNOWN_TOPIC_OR_PARTITION
    assert [(1, errors.NONE), (2, unknown)] == [
        (it.partition_index, it.error_code) for it in answered.topics[0].partitions
    ]
    assert {("flights", 0): 1, ("tides", 0): 3} == fetched(world)


def test_offsets_of_subscribed_topics_are_kept() -> None:
    """
    Deleting offsets of a topic to which a member subscribes fails with GROUP_SUBSCRIBED_TO_TOPIC.  Offsets of other
    topics are deleted.
    """
    world = world_with_commits()
    GroupMember(world).stabilize()

    codes = [world.ask(deleting(topic, 0)).topics[0].partitions[0].error_code for topic in ("flights", "tides")]

    assert [errors.GROUP_SUBSCRIBED_TO_TOPIC, errors.NONE] == codes
    assert {("flights", 0): 1, ("flights", 1): 2} == fetched(world)


def test_an_unknown_group_is_refused() -> None:
    """
    For an unknown group, the error applies to the whole request, and the response contains no topics.
    """
    world = world_with_commits()

    answered = world.ask(deleting("flights", 0, group_id="?"))

    assert (errors.GROUP_ID_NOT_FOUND, []) == (answered.error_code, list(answered.topics))
