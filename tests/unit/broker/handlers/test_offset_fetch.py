"""OffsetFetch over the wire: one group or many, by name or by id, some partitions or all."""

from typing import Any

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.group_member import STATIC, commit
from tidemill.broker.coordinators.hosted_topic import HostedTopic
from tidemill.metadata.topics import DeleteTopics
from tidemill.model import errors
from tidemill.model.topic import TopicId
from tidemill.wire.messages.offset_fetch import Request

Group = Request.Group


def flights() -> BrokerWorld:
    world = BrokerWorld(STATIC)
    world.create("flights", partitions=2)
    commit(world, "flights", 7)
    return world


def id_of(world: BrokerWorld, name: str) -> TopicId:
    topic = world.broker.image.topic(name)
    assert topic is not None
    return topic.topic_id


def told(topics: Any) -> list[tuple[str, list[tuple[int, int, int]]]]:
    return [
        (topic.name, [(it.partition_index, it.committed_offset, it.error_code) for it in topic.partitions])
        for topic in topics
    ]


@pytest.mark.parametrize("version", range(1, 8))
def test_old_versions_ask_for_one_group(version: int) -> None:
    """
    Before v8, a request names one group.  If a partition has no committed offset, its offset is −1 and it has no error,
    even if its topic does not exist.
    """
    world = flights()
    topics = [
        Request.Topic(name="flights", partition_indexes=[1, 0]),
        Request.Topic(name="tides", partition_indexes=[0]),
    ]

    answered = world.ask(Request(group_id="g", topics=topics), version)

    assert [("flights", [(1, -1, 0), (0, 7, 0)]), ("tides", [(0, -1, 0)])] == told(answered.topics)
    assert errors.NONE == answered.error_code


def test_null_topics_mean_every_committed_offset() -> None:
    """
    Topics may be null from v2 on.  The response contains the leader epoch from v5 on, and the metadata in every
    version.
    """
    world = flights()

    answered = world.ask(Request(group_id="g", topics=None), 7)

    assert [("flights", [(0, 7, 0)])] == told(answered.topics)
    assert [(1, "at 7")] == [
        (it.committed_leader_epoch, it.metadata) for topic in answered.topics for it in topic.partitions
    ]


@pytest.mark.parametrize("version", [8, 9])
def test_groups_are_answered_in_request_order(version: int) -> None:
    """
    Each group of a request has its own result, in the order of the request (KIP-709).  An unknown group has no
    committed offsets.
    """
    world = flights()
    commit(world, "flights", 1, 2, group_id="h")
    some = [Group.Topic(name="flights", partition_indexes=[1])]
    groups = [Group(group_id="?", topics=None), Group(group_id="h", topics=some), Group(group_id="g", topics=None)]

    answered = world.ask(Request(groups=groups), version)

    assert [("?", []), ("h", [("flights", [(1, 2, 0)])]), ("g", [("flights", [(0, 7, 0)])])] == [
        (group.group_id, told(group.topics)) for group in answered.groups
    ]


def test_the_newest_version_names_topics_by_id() -> None:
    """
    Each partition of a topic with an unknown id has the error UNKNOWN_TOPIC_ID.
    """
    world = flights()
    known, unknown = id_of(world, "flights"), TopicId(b"?" * 16)
    some = [Group.Topic(topic_id=it, partition_indexes=[0]) for it in (known, unknown)]

    answered = world.ask(Request(groups=[Group(group_id="g", topics=some), Group(group_id="g", topics=None)]))

    assert [[(known, 7, 0), (unknown, -1, errors.UNKNOWN_TOPIC_ID)], [(known, 7, 0)]] == [
        [(topic.topic_id, it.committed_offset, it.error_code) for topic in group.topics for it in topic.partitions]
        for group in answered.groups
    ]


def test_a_topic_that_was_created_again_has_no_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The new topic has no committed offsets, even before tombstones for the old topic's offsets are written.
    """
    world = flights()
    monkeypatch.setattr(HostedTopic, "_forget", lambda *_: None)
    world.broker.controller.submit(DeleteTopics(topics=("flights",)))
    world.stabilize()
    world.create("flights", partitions=2)
    some = [Group.Topic(name="flights", partition_indexes=[0])]

    groups = [Group(group_id="g", topics=topics) for topics in (some, None)]
    answered = world.ask(Request(groups=groups), 9)

    assert [[("flights", [(0, -1, 0)])], []] == [told(group.topics) for group in answered.groups]


@pytest.mark.parametrize("version", range(1, 9))
def test_an_unavailable_coordinator_is_an_error_of_the_group(version: int) -> None:
    """
    The error is in the group from v8 on, and in the response itself from v2 to v7.  In every version, it is also in
    each partition; in v1, it is nowhere else.
    """
    world = BrokerWorld(STATIC)
    world.broker.coordinators.stop()
    some = [Request.Topic(name="flights", partition_indexes=[0])]
    groups = [Group(group_id="g", topics=[Group.Topic(name="flights", partition_indexes=[0])])]

    answered = world.ask(Request(groups=groups) if version >= 8 else Request(group_id="g", topics=some), version)

    code = errors.NOT_COORDINATOR
    said = answered.groups[0] if version >= 8 else answered
    assert (code if version > 1 else errors.NONE) == said.error_code
    assert [("flights", [(0, -1, code)])] == told(said.topics)


@pytest.mark.parametrize("version", [9, 10])
def test_partitions_of_an_unavailable_group_have_an_error_that_librdkafka_retries(version: int) -> None:
    """
    Because of librdkafka issue 5586, each partition of a group without an available coordinator gets an error that
    librdkafka retries.  The response is delayed, because librdkafka retries immediately.
    """
    world = flights()
    world.broker.coordinators.stop()
    some = [Group.Topic(name="flights", topic_id=id_of(world, "flights"), partition_indexes=[0, 1])]
    api, version = world.client.send(Request(groups=[Group(group_id="g", topics=some)]), version)
    world.stabilize()
    at_once = world.client.answer(api, version)
    world.pass_time(100)

    (group,) = world.client.answer(api, version).groups

    assert at_once is None
    assert errors.NOT_COORDINATOR == group.error_code
    assert [errors.STALE_MEMBER_EPOCH] * 2 == [it.error_code for topic in group.topics for it in topic.partitions]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_every_offset_of_an_unavailable_group_is_none(version: int) -> None:
    """
    If a group's coordinator is unavailable, a request for all of its offsets is answered immediately, with an error for
    the group and no offsets.
    """
    world = BrokerWorld(STATIC)
    world.broker.coordinators.stop()

    (group,) = world.ask(Request(groups=[Group(group_id="g", topics=None)]), version).groups

    assert (errors.NOT_COORDINATOR, []) == (group.error_code, list(group.topics))


def test_a_request_without_groups_is_answered() -> None:
    """
    The response to a request that names no groups contains no results.
    """
    assert [] == list(BrokerWorld(STATIC).ask(Request(groups=())).groups)
