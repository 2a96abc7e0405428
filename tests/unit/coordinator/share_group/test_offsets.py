"""AlterShareGroupOffsets and DeleteShareGroupOffsets in the group coordinator."""

import pytest

from tests.unit.coordinator.group.group_world import FLIGHTS_ID, TIDES_ID
from tests.unit.coordinator.share_group.share_world import ShareWorld
from tidemill.coordinator.share_group.log_records import Kind
from tidemill.coordinator.share_group.requests import AlterShareOffsets, DeleteShareOffsets, ReadShareTopics
from tidemill.coordinator.share_group.responses import ShareOffsetsAltered, ShareOffsetsDeleted
from tidemill.model import errors
from tidemill.model.topic import NO_TOPIC_ID, TopicId


def alter(world: ShareWorld, *topics: str, group_id: str = "g") -> ShareOffsetsAltered:
    altered: ShareOffsetsAltered = world.ask(AlterShareOffsets(waiter=world.waiter(), group_id=group_id, topics=topics))
    return altered


def delete(world: ShareWorld, *topics: str, group_id: str = "g") -> ShareOffsetsDeleted:
    deleted: ShareOffsetsDeleted = world.ask(
        DeleteShareOffsets(waiter=world.waiter(), group_id=group_id, topics=topics)
    )
    return deleted


def known(world: ShareWorld) -> set[TopicId]:
    return set(world.ask(ReadShareTopics(waiter=world.waiter(), group_id="g")).incarnations)


def left(world: ShareWorld, *topics: str) -> None:
    """Let a member join and leave again."""
    world.joined("m1", *topics)
    world.beat("m1", -1)


# AlterShareGroupOffsets.


def test_altering_offsets_creates_a_missing_group():
    """
    The group exists afterwards, is empty, and knows the topics, even after a restart.  The group's first member uses
    the same incarnation.
    """
    world = ShareWorld()

    altered = alter(world, "flights", "none")
    world.restart()

    flights, none = altered.topics
    assert (FLIGHTS_ID, 4, None) == (flights.topic_id, flights.partition_count, none)
    assert [("g", "share", "Empty", "Share")] == world.listed()
    assert {FLIGHTS_ID} == known(world)
    world.joined("m1")
    assert flights.incarnation == world.open("flights").incarnation
    assert {"m1": {"flights": (0, 1, 2, 3)}} == world.rebalanced("m1")


def test_altering_offsets_logs_the_group_before_its_topics():
    """
    If only the first record is committed, the group exists without topics, and the repeated request adds them.
    """
    world = ShareWorld()
    alter(world, "flights")
    assert [Kind.GROUP, Kind.TOPICS] == world.kinds_since(0)

    world.log = world.log[:1]
    world.restart()

    assert FLIGHTS_ID == alter(world, "flights").topics[0].topic_id
    assert [Kind.GROUP, Kind.TOPICS] == world.kinds_since(0)


def test_altering_offsets_of_unknown_topics_creates_no_group():
    """A misspelled topic leaves no empty group behind."""
    world = ShareWorld()

    assert (None,) == alter(world, "none").topics
    assert [] == world.listed()


def test_altering_offsets_keeps_the_incarnation():
    """
    The leaders tell the new offsets from the old ones by the state epoch, so the incarnation of a topic that the group
    knows does not change.
    """
    world = ShareWorld()
    left(world, "flights")
    before = world.open("flights").incarnation
    length = len(world.log)

    (topic,) = alter(world, "flights").topics

    assert before == topic.incarnation
    assert length == len(world.log)


@pytest.mark.parametrize("request_", [alter, delete])
def test_offsets_of_a_group_with_members_are_kept(request_):
    """The error is NON_EMPTY_GROUP (68), as in Kafka, and nothing is logged."""
    world = ShareWorld()
    world.joined("m1")
    length = len(world.log)

    refused = request_(world, "flights", "tides")

    assert (errors.NON_EMPTY_GROUP, "The group is not empty: g has 1 active members.") == (
        refused.error_code,
        refused.error_message,
    )
    assert length == len(world.log)


@pytest.mark.parametrize("request_", [alter, delete])
def test_a_classic_group_has_no_share_offsets(request_):
    """A group of another type is refused with GROUP_ID_NOT_FOUND (69), as in Kafka."""
    world = ShareWorld()
    world.commit("g")

    assert errors.GROUP_ID_NOT_FOUND == request_(world, "flights").error_code
    assert [("g", "", "Empty", "Classic")] == world.listed()


@pytest.mark.parametrize("request_", [alter, delete])
def test_a_group_needs_an_id(request_):
    """An empty group id is refused with INVALID_GROUP_ID (24), as in Kafka."""
    assert errors.INVALID_GROUP_ID == request_(ShareWorld(), "flights", group_id="").error_code


# DeleteShareGroupOffsets.


def test_deleted_offsets_belong_to_a_past_incarnation():
    """
    The group no longer knows the topic, and keeps the others.  The leaders are asked to remove their shares.  A member
    that subscribes to the topic again begins a greater incarnation, which a late removal does not touch.
    """
    world = ShareWorld()
    left(world, "flights", "tides")
    before = world.open("flights").incarnation

    deleted = delete(world, "flights")
    world.restart()

    assert [(FLIGHTS_ID, errors.NONE)] == [(it.topic_id, it.error_code) for it in deleted.topics]
    assert {TIDES_ID} == known(world)
    (share,) = world.groups.shares_to_close()
    assert ("g", FLIGHTS_ID, before) == share
    world.joined("m1", "flights")
    again = world.open("flights")
    assert again.incarnation > before
    assert [("g", FLIGHTS_ID)] == world.close_shares()
    assert again == world.open("flights")


def test_offsets_are_deleted_while_earlier_ones_are_removed():
    """
    A repeated deletion succeeds while the leaders have not removed the shares of the first one.  Once they have, there
    is nothing to delete.
    """
    world = ShareWorld()
    left(world, "flights")
    delete(world, "flights")

    assert [errors.NONE] == [it.error_code for it in delete(world, "flights").topics]
    world.close_shares()
    assert [errors.UNKNOWN_TOPIC_OR_PARTITION] == [it.error_code for it in delete(world, "flights").topics]


def test_topics_without_offsets_are_named():
    """
    A topic that does not exist, and one that the group has never read, are answered UNKNOWN_TOPIC_OR_PARTITION (3), as
    in Kafka, and the others are deleted.
    """
    world = ShareWorld()
    left(world, "flights")

    deleted = delete(world, "none", "tides", "flights").topics

    unknown = errors.UNKNOWN_TOPIC_OR_PARTITION
    assert [(NO_TOPIC_ID, unknown), (TIDES_ID, unknown), (FLIGHTS_ID, 0)] == [
        (it.topic_id, it.error_code) for it in deleted
    ]
    assert "Group g has no offsets of topic tides." == deleted[1].error_message


def test_offsets_of_an_unknown_group_cannot_be_deleted():
    """A deletion does not create a group: the error is GROUP_ID_NOT_FOUND (69)."""
    world = ShareWorld()

    assert errors.GROUP_ID_NOT_FOUND == delete(world, "flights").error_code
    assert [] == world.listed()


def test_offsets_are_altered_after_their_deletion():
    """New offsets after a deletion belong to a new incarnation, and survive the removal of the old shares."""
    world = ShareWorld()
    left(world, "flights")
    before = world.open("flights").incarnation
    delete(world, "flights")

    (topic,) = alter(world, "flights").topics
    world.close_shares()

    assert topic.incarnation > before
    assert topic.incarnation == world.open("flights").incarnation
