"""OffsetCommit, OffsetFetch, OffsetDelete, and the expiry of offsets."""

import pytest

from tests.unit.coordinator.group.group_world import FLIGHTS_ID, TIDES_ID, World, leaving
from tidemill.coordinator.group.requests import (
    CommitOffsets,
    DeleteOffsets,
    FetchOffsets,
    ForgetTopics,
    OffsetToCommit,
    TopicPartitionId,
)
from tidemill.model import errors
from tidemill.model.topic import TopicId

DAY_MS = 86_400_000
RETENTION_MS = 7 * DAY_MS


def forget_offsets(world, *, topic="flights", group_id="g"):
    asked = TopicPartitionId(topic=topic, topic_id=world.topic_ids[topic], partition=0)
    return world.ask(DeleteOffsets(waiter=world.waiter(), group_id=group_id, partitions=(asked,)))


def test_committed_offsets_survive_a_change_of_leader():
    """The new leader has not only the offsets but also their leader epochs and metadata."""
    world = World()
    world.commit(offset=42, metadata="here", leader_epoch=3)

    world.restart()
    asked = (TopicPartitionId(topic="flights", topic_id=FLIGHTS_ID, partition=0),)
    (found,) = world.ask(FetchOffsets(waiter="w", group_id="g", partitions=asked)).offsets

    assert (found.offset, found.leader_epoch, found.metadata) == (42, 3, "here")
    assert found.topic_id == FLIGHTS_ID


def test_a_group_that_sends_dead_letters_back_has_no_offsets():
    """A commit would make it a consumer group, and its letters could not be sent back."""
    world = World()

    assert errors.INVALID_GROUP_ID == world.commit("__redrive")
    assert [] == world.log


def test_fetching_without_a_commit_returns_minus_one():
    """Fetching an offset that was never committed returns -1 and no error, even if the group is unknown."""
    world = World()
    world.commit()

    assert world.fetch(partition=7) == -1
    assert world.fetch("other") == -1
    assert world.fetch_all("other") == {}


def test_all_offsets_of_a_group_can_be_fetched():
    """OffsetFetch requests all offsets if its topics are null."""
    world = World()
    world.commit(offset=1)
    world.commit(offset=2, partition=1)
    world.commit(offset=3, topic="tides")

    assert world.fetch_all() == {("flights", 0): 1, ("flights", 1): 2, ("tides", 0): 3}


@pytest.mark.parametrize(
    ("fields", "error_code"),
    [
        ({}, errors.UNKNOWN_MEMBER_ID),
        ({"generation": 1, "member_id": "nobody"}, errors.UNKNOWN_MEMBER_ID),
        ({"generation": 9, "member_id": "app-00000000-0000-4000-8000-000000000001"}, errors.ILLEGAL_GENERATION),
        ({"generation": -1, "member_id": "app-00000000-0000-4000-8000-000000000001"}, errors.ILLEGAL_GENERATION),
    ],
)
def test_only_members_commit_for_a_group_in_use(fields, error_code):
    """A simple consumer, which assigns its own partitions, may commit only while the group has no members."""
    world = World()
    world.stable()

    assert world.commit(**fields) == error_code


def test_a_fenced_instance_cannot_commit():
    """A fenced member cannot commit offsets, because its partitions belong to the process that replaced it."""
    world = World()
    (desk,) = world.static("desk")
    world.join(instance_id="desk")

    code = world.commit(generation=1, member_id=desk.member_id, instance_id="desk")

    assert code == errors.FENCED_INSTANCE_ID


def test_a_commit_is_refused_while_the_leader_assigns():
    """
    While the leader computes the assignment, a commit is refused with REBALANCE_IN_PROGRESS, which makes the client
    join again instead of failing.
    """
    world = World()
    parked = world.join()
    world.wait(3_000)
    member = world.answer(parked)

    assert world.commit(generation=1, member_id=member.member_id) == errors.REBALANCE_IN_PROGRESS


def test_a_member_may_commit_while_a_rebalance_is_prepared():
    """
    While members join for a rebalance, a member may still commit what it has processed before it gives up its
    partitions.
    """
    world = World()
    (member,) = world.stable()
    world.join()

    assert world.commit(generation=1, member_id=member.member_id) == errors.NONE


def test_the_error_for_an_unknown_group_depends_on_the_version():
    """The error is GROUP_ID_NOT_FOUND from v9 on, and ILLEGAL_GENERATION in earlier versions."""
    world = World()

    assert world.commit(generation=1, member_id="m") == errors.GROUP_ID_NOT_FOUND
    assert world.commit(generation=1, member_id="m", knows_group_id_not_found=False) == errors.ILLEGAL_GENERATION
    assert world.state() == "Dead"


def test_too_large_metadata_fails_only_its_partition():
    """
    offset.metadata.max.bytes applies to each partition on its own; the other offsets in the request are committed.
    """
    world = World()
    offsets = tuple(
        OffsetToCommit(topic="flights", topic_id=FLIGHTS_ID, partition=index, offset=5, metadata="m" * size)
        for index, size in enumerate((4_096, 4_097))
    )

    committed = world.ask(CommitOffsets(waiter="w", group_id="g", offsets=offsets))

    assert committed.error_codes == (errors.NONE, errors.OFFSET_METADATA_TOO_LARGE)
    assert world.fetch_all() == {("flights", 0): 5}


def test_a_recreated_topic_does_not_see_the_old_commits():
    """
    If a topic is deleted and created again, its old committed offsets do not apply, because a committed offset belongs
    to a topic id and not to a name.
    """
    world = World()
    world.commit(offset=42)
    world.topic_ids["flights"] = TopicId(b"made again 12345")

    before = world.fetch()
    world.commit(offset=1)
    world.restart()

    assert before == -1
    assert world.fetch() == 1


def test_forgetting_a_deleted_topic_keeps_the_offsets_of_the_recreated_one():
    """The offsets of the new topic are kept, no matter how late the coordinator learns of the deletion."""
    world = World()
    world.commit(offset=42)
    world.commit(offset=43, partition=1)
    world.topic_ids["flights"] = TopicId(b"made again 12345")
    world.commit(offset=1)

    world.ask(ForgetTopics(topic_ids=frozenset({FLIGHTS_ID})))

    assert world.fetch_all() == {("flights", 0): 1}
    assert FLIGHTS_ID not in world.groups.topic_ids()


def test_offsets_of_subscribed_topics_cannot_be_deleted():
    """Offsets of a topic to which a member subscribes cannot be deleted; offsets of other topics can."""
    world = World()
    (member,) = world.stable()
    world.commit(generation=1, member_id=member.member_id)
    world.commit(generation=1, member_id=member.member_id, topic="tides")

    reads = forget_offsets(world)
    unread = forget_offsets(world, topic="tides")

    assert reads.error_codes == (errors.GROUP_SUBSCRIBED_TO_TOPIC,)
    assert unread.error_codes == (errors.NONE,)
    assert world.fetch_all() == {("flights", 0): 42}


def test_offsets_of_other_protocol_types_cannot_be_deleted_while_in_use():
    """
    Offsets of a group that has members, and whose protocol type is not `consumer`, cannot be deleted, because the
    coordinator cannot read the members' subscriptions.
    """
    world = World()
    world.stable(protocol_type="connect")

    assert forget_offsets(world).error_code == errors.NON_EMPTY_GROUP
    assert forget_offsets(world, group_id="other").error_code == errors.GROUP_ID_NOT_FOUND


def test_a_simple_consumers_offsets_expire_after_the_retention():
    """
    The retention of a simple consumer's offsets starts at the commit, and the group is deleted together with its last
    offset.
    """
    world = World()
    world.commit()
    world.wait(DAY_MS)
    world.commit(partition=1)

    world.wait(RETENTION_MS - DAY_MS + 600_000)
    between = world.fetch_all()
    world.wait(DAY_MS)

    assert between == {("flights", 1): 42}
    assert world.fetch_all() == {}
    assert world.state() == "Dead"


def test_the_retention_of_a_group_starts_when_it_becomes_empty():
    """
    The retention does not start at the commit: offsets of an idle topic stay as long as a member reads it (KIP-211).
    """
    world = World()
    (member,) = world.stable(session_timeout_ms=1_800_000)
    world.commit(generation=1, member_id=member.member_id)
    for _ in range(2 * 24 * 9):
        world.wait(1_800_000 - 1)
        world.heartbeat(member)
    world.leave(leaving(member))

    world.wait(RETENTION_MS - 1_200_000)
    kept = world.fetch()
    world.wait(2_400_000)

    assert kept == 42
    assert world.fetch() == -1
    assert world.state() == "Dead"


def test_a_stable_group_loses_only_offsets_of_unsubscribed_topics():
    """
    In a stable group, only offsets of topics to which no member subscribes expire.  The subscriptions are read from the
    metadata of the members.
    """
    world = World()
    (member,) = world.stable(session_timeout_ms=1_800_000)
    world.commit(generation=1, member_id=member.member_id)
    world.commit(generation=1, member_id=member.member_id, topic="tides")

    for _ in range(2 * 24 * 8):
        world.wait(1_800_000 - 1)
        world.heartbeat(member)

    assert world.fetch_all() == {("flights", 0): 42}


def test_a_retention_requested_by_the_client_applies():
    """Versions 2 to 4 of OffsetCommit can request a retention."""
    world = World()
    world.commit(retention_ms=3_600_000, topic="tides")
    world.restart()

    world.wait(3_000_000)
    kept = world.fetch(topic="tides")
    world.wait(1_200_000)

    assert kept == 42
    assert world.groups.topic_ids() == set()


def test_a_record_with_a_retention_keeps_its_topic_id():
    """The topic id is stored, although Kafka's own record for such a commit does not have one."""
    world = World()
    world.commit(retention_ms=3_600_000, topic="tides")

    assert world.groups.topic_ids() == {TIDES_ID}


def test_expired_offsets_are_deleted_in_bounded_steps():
    """No single step blocks the broker for long, and in the end all expired offsets have been deleted."""
    world = World()
    for group_index in range(4):
        offsets = tuple(
            OffsetToCommit(topic="flights", topic_id=FLIGHTS_ID, partition=index, offset=1) for index in range(3_000)
        )
        world.ask(CommitOffsets(waiter=world.waiter(), group_id=f"g{group_index}", offsets=offsets))
    sizes = []
    execute = world.execute
    world.execute = lambda result: (sizes.append(len(result.records)), execute(result))

    world.wait(RETENTION_MS + 600_000)

    assert sum(sizes) == 12_000
    assert max(sizes) == 6_000
    assert world.groups.topic_ids() == set()
