"""AlterShareGroupOffsets and DeleteShareGroupOffsets on a cluster: the coordinator and the leaders are different."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.broker.broker_world import BrokerWorld, Client
from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.share_member import STATIC, Got, ShareMember, configure_group
from tests.unit.broker.sharing_cluster import sharing_cluster
from tidemill.broker.coordinators.group_coordinator import GROUPS
from tidemill.broker.shares.share_closings import AGAIN_MS
from tidemill.broker.shares.share_leaders import RETRY_MS_MAX
from tidemill.broker.shares.share_openings import shares_of
from tidemill.model import errors
from tidemill.model.topic import NO_TOPIC_ID
from tidemill.peer import share_reset
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.share.share_session import FINAL_EPOCH
from tidemill.wire.messages import (
    alter_share_group_offsets,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    describe_share_group_offsets,
)

WAIT_MS = 500


@pytest.fixture
def world() -> ClusterWorld:
    """
    A cluster whose broker 1 coordinates the share group `g`, and whose broker 2 leads the topic `jobs` with the records
    a, b and c.
    """
    made = sharing_cluster()
    made[2].produce("jobs", b"a", b"b", b"c")
    configure_group(made.controller, share_auto_offset_reset="earliest")
    return made


def joined(world: ClusterWorld, name: str = "m") -> ShareMember:
    member = ShareMember(world[2], name, coordinator=world[1])
    member.join("jobs")
    return member


def left(member: ShareMember) -> None:
    """Close the member's session and let it leave the group."""
    if member.session_epoch:
        member.client.ask(member.fetch_request(share_session_epoch=FINAL_EPOCH))
    member.member_epoch = -1
    member.heartbeat()


def alteration(start: int, *numbers: int, topic: str = "jobs") -> alter_share_group_offsets.Request:
    asked = alter_share_group_offsets.Request.Topic
    partitions = [asked.Partition(partition_index=number, start_offset=start) for number in numbers or (0,)]
    return alter_share_group_offsets.Request(group_id="g", topics=[asked(topic_name=topic, partitions=partitions)])


def codes(answer: Any) -> list[int]:
    assert not answer.error_code, answer.error_message
    return [it.error_code for topic in answer.responses for it in topic.partitions]


def alter(world: ClusterWorld, start: int, *numbers: int, topic: str = "jobs") -> list[int]:
    return codes(world[1].ask(alteration(start, *numbers, topic=topic)))


def delete(world: ClusterWorld, *topics: str) -> Any:
    asked = delete_share_group_offsets.Request.Topic
    named = [asked(topic_name=name) for name in topics]
    return world[1].ask(delete_share_group_offsets.Request(group_id="g", topics=named))


def offsets(world: ClusterWorld, topics: Sequence[str] | None = None) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the start and the lag of each partition from DescribeShareGroupOffsets."""
    asked = describe_share_group_offsets.Request.Group
    named = None if topics is None else [asked.Topic(topic_name=name, partitions=[0]) for name in topics]
    request = describe_share_group_offsets.Request(groups=[asked(group_id="g", topics=named)])
    (answer,) = world[1].ask(request).groups
    assert not answer.error_code, answer.error_message
    return {
        (topic.topic_name, it.partition_index): (it.start_offset, it.lag)
        for topic in answer.topics
        for it in topic.partitions
    }


def test_altered_offsets_are_described_and_delivered(world: ClusterWorld) -> None:
    """
    The start and the lag are those of the new offset as soon as the request is answered (KAFKA-20034), on every
    replica.  The next member gets the records from there on, as if they had never been delivered.
    """
    member = joined(world)
    member.receive(max_wait_ms=WAIT_MS)
    assert errors.NONE == member.acknowledge(0, 1) == member.acknowledge(2, 2, Acknowledgement.RELEASE)
    left(member)
    assert {("jobs", 0): (2, 1)} == offsets(world)

    assert [errors.NONE] == alter(world, 1)

    assert {("jobs", 0): (1, 2)} == offsets(world)
    again = joined(world)
    assert [Got(1, b"b", 1), Got(2, b"c", 1)] == again.receive(max_wait_ms=WAIT_MS)
    world.pass_time(500)
    assert [1, 1, 1] == [shares_of(world[it].partition("jobs")).of_group("g").start for it in (1, 2, 3)]  # type: ignore[union-attr]


def test_a_missing_group_gets_offsets(world: ClusterWorld) -> None:
    """Offsets can be set before the group has ever had a member."""
    assert [errors.NONE] == alter(world, 2)

    assert {("jobs", 0): (2, 1)} == offsets(world)
    assert [Got(2, b"c", 1)] == joined(world).receive(max_wait_ms=WAIT_MS)


def test_offsets_outside_of_the_log(world: ClusterWorld) -> None:
    """
    An offset below the log start becomes the log start.  One beyond the end is kept, as in Kafka: the group gets the
    records from there on when they arrive.  A negative one is refused.
    """
    topic = delete_records.Request.Topic
    places = [topic(name="jobs", partitions=[topic.Partition(partition_index=0, offset=2)])]
    world[2].ask(delete_records.Request(topics=places, timeout_ms=1_000))

    assert [errors.NONE] == alter(world, 0)
    assert {("jobs", 0): (2, 1)} == offsets(world)
    assert [errors.NONE] == alter(world, 4)
    assert {("jobs", 0): (4, 0)} == offsets(world)
    assert [errors.INVALID_REQUEST] == alter(world, -1)

    world[2].produce("jobs", b"d", b"e")
    assert [Got(4, b"e", 1)] == joined(world).receive(max_wait_ms=WAIT_MS)


def test_unknown_partitions_are_refused_alone(world: ClusterWorld) -> None:
    """Partitions that do not exist are answered UNKNOWN_TOPIC_OR_PARTITION (3), and the others are altered."""
    unknown = errors.UNKNOWN_TOPIC_OR_PARTITION
    assert [errors.NONE, unknown, unknown] == alter(world, 1, 0, 1, -1)
    assert {("jobs", 0): (1, 2)} == offsets(world)
    answer = world[1].ask(alteration(1, topic="none"))
    assert ([unknown], NO_TOPIC_ID) == (codes(answer), answer.responses[0].topic_id)


def test_a_partition_may_be_named_twice(world: ClusterWorld) -> None:
    """Each mention is answered; the last offset counts."""
    request = alteration(1, 0, 0)
    request.topics[0].partitions[1].start_offset = 2

    assert [errors.NONE, errors.NONE] == codes(world[1].ask(request))
    assert {("jobs", 0): (2, 1)} == offsets(world)


def test_a_group_with_members_keeps_its_offsets(world: ClusterWorld) -> None:
    """The whole request is refused with NON_EMPTY_GROUP (68)."""
    joined(world)

    assert errors.NON_EMPTY_GROUP == world[1].ask(alteration(1)).error_code
    assert errors.NON_EMPTY_GROUP == delete(world, "jobs").error_code


def test_records_that_are_held_keep_their_offsets(world: ClusterWorld) -> None:
    """
    A consumer that has left the group, and still holds records, may acknowledge them: until then the partition is
    refused with NON_EMPTY_GROUP, and its share is unchanged.
    """
    member = joined(world)
    member.receive(max_wait_ms=WAIT_MS)
    member.member_epoch = -1
    member.heartbeat()

    assert [errors.NON_EMPTY_GROUP] == alter(world, 2)
    assert errors.NONE == member.acknowledge(0, 2)
    assert {("jobs", 0): (3, 0)} == offsets(world)
    assert [errors.NONE] == alter(world, 2)


def test_concurrent_alterations_are_applied_in_turn(world: ClusterWorld) -> None:
    """
    Two requests that are decided before the first has committed both count, and the later one wins.  With equal state
    epochs, the second one would be answered as success and ignored.
    """
    clients = [Client(world[1]), Client(world[1])]
    sent = [client.send(alteration(start)) for client, start in zip(clients, (1, 2), strict=True)]
    world.stabilize()

    answers = [client.answer(*it) for client, it in zip(clients, sent, strict=True)]

    assert [[errors.NONE]] * 2 == [codes(answer) for answer in answers]
    assert {("jobs", 0): (2, 1)} == offsets(world)


def test_a_late_reset_does_not_touch_a_newer_incarnation(world: ClusterWorld) -> None:
    """
    A request that arrives after the group's offsets were deleted and begun again is refused with FENCED_STATE_EPOCH.
    """
    assert [errors.NONE] == alter(world, 1)
    partition = world[2].partition("jobs")
    share = shares_of(partition).of_group("g")
    assert share is not None
    asked = share_reset.Request.Partition(
        topic_id=partition.log.topic_id, partition=0, incarnation=share.incarnation - 1, start=2
    )
    outcomes: list[share_reset.Response] = []

    world[2].broker.shares.resets.reset(share_reset.Request(group_id="g", partitions=[asked])).then(outcomes.append)
    world.stabilize()

    assert [errors.FENCED_STATE_EPOCH] == [it.error_code for it in outcomes[0].outcomes]
    assert {("jobs", 0): (1, 2)} == offsets(world)


def test_a_full_disk_keeps_the_offsets(world: ClusterWorld) -> None:
    """
    A leader whose disk is full refuses with KAFKA_STORAGE_ERROR, because it cannot append.  Once the leadership has
    moved to another broker, the offsets can be set.
    """
    assert [errors.NONE] == alter(world, 1)
    world[2].disk.free_bytes = 1 << 20
    world[2].broker.free_space.check()

    assert [errors.KAFKA_STORAGE_ERROR] == alter(world, 2)
    assert {("jobs", 0): (1, 2)} == offsets(world)
    world.pass_time(5_000)
    assert [errors.NONE] == alter(world, 2)


def test_a_leader_that_moves_is_asked_again(world: ClusterWorld) -> None:
    """
    While no leader can be reached, the request waits.  It is answered by the next leader, or with an error when the
    time is over.
    """
    client = Client(world[1])
    world.cut_off(2)
    sent = client.send(alteration(1))
    world.until(lambda: any(world[it].shard("jobs").is_serving for it in (1, 3)), "another leader")
    world.pass_time(RETRY_MS_MAX)
    first = client.answer(*sent)
    assert first is not None, "the request still waits"
    if codes(first) != [errors.NONE]:  # the election took longer than the request waits
        assert codes(first)[0] in (errors.LEADER_NOT_AVAILABLE, errors.NOT_LEADER_OR_FOLLOWER)
        assert [errors.NONE] == alter(world, 1)

    assert {("jobs", 0): (1, 2)} == offsets(world)


def test_a_description_waits_for_the_next_leader(world: ClusterWorld) -> None:
    """
    While the leader cannot be reached, DescribeShareGroupOffsets waits for the next one, because Kafka's commands leave
    out a partition that has an error.
    """
    assert [errors.NONE] == alter(world, 1)
    asked = describe_share_group_offsets.Request.Group(group_id="g", topics=None)
    client = Client(world[1])
    world.lead("jobs", by=3)
    world.cut_off(2)

    sent = client.send(describe_share_group_offsets.Request(groups=[asked]))
    world.pass_time(RETRY_MS_MAX)

    answer = client.answer(*sent)
    assert answer is not None, "the request still waits"
    (partition,) = answer.groups[0].topics[0].partitions
    assert (errors.NONE, 1) == (partition.error_code, partition.start_offset)


def test_deleted_offsets_begin_anew(world: ClusterWorld) -> None:
    """
    Deleted offsets are not described, even if the leader has not removed its share yet.  The leaders remove it.  A
    member that subscribes again begins where a new group begins.
    """
    member = joined(world)
    member.receive(max_wait_ms=WAIT_MS)
    member.acknowledge(0, 2)
    left(member)

    answer = delete(world, "jobs", "none")

    found = {it.topic_name: it.error_code for it in answer.responses}
    assert (errors.NONE, {"jobs": 0, "none": errors.UNKNOWN_TOPIC_OR_PARTITION}) == (answer.error_code, found)
    assert {} == offsets(world)
    assert {("jobs", 0): (-1, -1)} == offsets(world, ["jobs"])
    again = joined(world, "again")
    assert {("jobs", 0): (-1, -1)} == offsets(world)
    assert [Got(0, b"a", 1), Got(1, b"b", 1), Got(2, b"c", 1)] == again.receive(max_wait_ms=WAIT_MS)
    left(again)
    assert errors.NONE == delete(world, "jobs").error_code
    world.pass_time(3_000)
    assert [None, None, None] == [shares_of(world[it].partition("jobs")).of_group("g") for it in (1, 2, 3)]


def test_shares_that_were_never_opened_are_closed_at_once() -> None:
    """
    The broker that coordinates two deleted groups, and leads the partition, closes both in one tick, although neither
    has ever read a record.
    """
    single = BrokerWorld({**STATIC, "offsets.topic.num.partitions": "1"})
    single.create("jobs")
    groups = ("a", "b")
    for group in groups:
        member = ShareMember(single, group=group)
        member.join("jobs")
        member.member_epoch = -1
        member.heartbeat()

    deleted = single.ask(delete_groups.Request(groups_names=groups)).results
    single.pass_time(2 * AGAIN_MS)

    assert [errors.NONE] * 2 == [it.error_code for it in deleted]
    for hosted in single.broker.coordinators.of(GROUPS).hosted():
        assert [] == list(hosted.core.groups.shares_to_close())
