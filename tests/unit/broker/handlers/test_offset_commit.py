"""OffsetCommit over the wire: topics by name and by id, and refused offsets."""

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.group_member import STATIC, GroupMember, commit, committing, fetched
from tidemill.model import errors
from tidemill.model.topic import TopicId
from tidemill.wire.messages.offset_commit import Request


def flights(**static: str) -> BrokerWorld:
    world = BrokerWorld({**STATIC, **static})
    world.create("flights", partitions=2)
    return world


def id_of(world: BrokerWorld, name: str) -> TopicId:
    topic = world.broker.image.topic(name)
    assert topic is not None
    return topic.topic_id


@pytest.mark.parametrize("version", range(2, 10))
def test_a_consumer_without_a_group_commits_in_every_version(version: int) -> None:
    """
    A consumer that assigns its own partitions commits with generation -1 and without a member id.
    """
    world = flights()

    answered = world.ask(committing("flights", 3, 4), version)

    assert [("flights", [(0, errors.NONE), (1, errors.NONE)])] == [
        (topic.name, [(it.partition_index, it.error_code) for it in topic.partitions]) for topic in answered.topics
    ]
    assert {("flights", 0): 3, ("flights", 1): 4} == fetched(world)


def test_the_newest_version_names_topics_by_id() -> None:
    """
    An unknown id is answered with UNKNOWN_TOPIC_ID, and the response repeats the id.
    """
    world = flights()
    known, unknown = id_of(world, "flights"), TopicId(b"?" * 16)
    request = committing("", 3, topic_id=known)
    request.topics = [*request.topics, *committing("", 9, topic_id=unknown).topics]

    answered = world.ask(request, 10)

    assert [(known, [errors.NONE]), (unknown, [errors.UNKNOWN_TOPIC_ID])] == [
        (topic.topic_id, [it.error_code for it in topic.partitions]) for topic in answered.topics
    ]
    assert {("flights", 0): 3} == fetched(world)


def test_unknown_partitions_are_refused_one_by_one() -> None:
    """
    Only the offsets of partitions and topics that do not exist are refused; all others are committed.
    """
    world = flights()

    codes = [commit(world, "flights", 1, 2, 3), commit(world, "tides", 1)]

    unknown = errors.UNKNOWN_TOPIC_OR_PARTITION
    assert [[errors.NONE, errors.NONE, unknown], [unknown]] == codes
    assert {("flights", 0): 1, ("flights", 1): 2} == fetched(world)


def test_a_member_commits_in_its_generation_only() -> None:
    """
    Neither members of an old generation nor clients outside the group can move the group's offsets.
    """
    world = flights()
    member = GroupMember(world).stabilize()
    codes = [commit(world, "flights", 1, member=member)]

    member.generation += 1
    codes.append(commit(world, "flights", 2, member=member))
    codes.append(commit(world, "flights", 3))

    assert [[errors.NONE], [errors.ILLEGAL_GENERATION], [errors.UNKNOWN_MEMBER_ID]] == codes
    assert {("flights", 0): 1} == fetched(world)


def test_long_metadata_is_refused() -> None:
    """
    An offset whose metadata is longer than offset.metadata.max.bytes is refused.
    """
    world = flights(**{"offset.metadata.max.bytes": "5"})

    codes = [commit(world, "flights", 10), commit(world, "flights", 100)]

    assert [[errors.NONE], [errors.OFFSET_METADATA_TOO_LARGE]] == codes


def test_a_request_without_topics_is_answered() -> None:
    """
    A request without topics gets an empty response immediately.
    """
    world = flights()

    answered = world.ask(Request(group_id="g", member_id="", topics=()))

    assert [] == list(answered.topics)
