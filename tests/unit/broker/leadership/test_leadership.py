"""What each API returns while leadership moves: the table of `docs/protocol/leadership.md`, row by row."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.broker.broker_world import Client
from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.group_member import committing
from tidemill.batches.builder import build_batch
from tidemill.broker.coordinators.group_coordinator import GROUPS
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.topic import OFFSETS_TOPIC
from tidemill.wire.messages import (
    alter_share_group_offsets,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    describe_groups,
    fetch,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_offsets,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    share_group_describe,
    share_group_heartbeat,
    sync_group,
)
from tidemill.wire.schema import Message

PAGE = Path(__file__).resolve().parents[4] / "docs" / "protocol" / "leadership.md"
ROWS = re.findall(r"^\| (\w+) \| (\w+) \| (\w+) \| (\w*) ?\|$", PAGE.read_text(), re.MULTILINE)
STATIC = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
SILENT_MS = 2_000  # a peer that has sent no heartbeat for this long is not alive

Code = Callable[[Any], int]


def producing(offset: int) -> produce.Request:
    batch = build_batch([(None, b"x", (), 1_700_000_000_000)])
    data = produce.Request.Topic.Partition(index=0, records=memoryview(batch))
    topics = [produce.Request.Topic(name="flights", partition_data=[data])]
    return produce.Request(acks=-1, timeout_ms=30_000, topic_data=topics)


def fetching(offset: int) -> fetch.Request:
    wanted = fetch.Request.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [fetch.Request.Topic(topic="flights", partitions=[wanted])]
    return fetch.Request(max_wait_ms=60_000, min_bytes=1, topics=topics)


def listing(offset: int) -> list_offsets.Request:
    wanted = list_offsets.Request.Topic.Partition(partition_index=0, timestamp=-1)
    return list_offsets.Request(replica_id=-1, topics=[list_offsets.Request.Topic(name="flights", partitions=[wanted])])


def asking_for_epoch(offset: int) -> offset_for_leader_epoch.Request:
    wanted = offset_for_leader_epoch.Request.Topic.Partition(partition=0, leader_epoch=1)
    topic = offset_for_leader_epoch.Request.Topic(topic="flights", partitions=[wanted])
    return offset_for_leader_epoch.Request(topics=[topic])


def deleting(offset: int) -> delete_records.Request:
    wanted = delete_records.Request.Topic.Partition(partition_index=0, offset=1)
    topic = delete_records.Request.Topic(name="flights", partitions=[wanted])
    return delete_records.Request(topics=[topic], timeout_ms=30_000)


def joining(_: int) -> join_group.Request:
    return join_group.Request(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[join_group.Request.Protocol(name="range", metadata=b"")],
    )


def first_partition(response: Any) -> int:
    code: int = response.topics[0].partitions[0].error_code
    return code


def whole(response: Any) -> int:
    code: int = response.error_code
    return code


# For each API: a function that returns a request, given the partition's end offset; the request's version; and a
# function that returns the error code in the response.
REQUESTS: dict[str, tuple[Callable[[int], Message], int, Code]] = {
    "Produce": (producing, 9, lambda it: int(it.responses[0].partition_responses[0].error_code)),
    "Fetch": (fetching, 12, lambda it: int(it.responses[0].partitions[0].error_code)),
    "ListOffsets": (listing, 6, first_partition),
    "OffsetForLeaderEpoch": (asking_for_epoch, 4, first_partition),
    "DeleteRecords": (deleting, 2, first_partition),
    "JoinGroup": (joining, 5, whole),
    "SyncGroup": (
        lambda _: sync_group.Request(group_id="g", generation_id=1, member_id="m", assignments=()),
        3,
        whole,
    ),
    "Heartbeat": (lambda _: heartbeat.Request(group_id="g", generation_id=1, member_id="m"), 4, whole),
    "LeaveGroup": (
        lambda _: leave_group.Request(group_id="g", members=[leave_group.Request.Member(member_id="m")]),
        5,
        whole,
    ),
    "OffsetCommit": (lambda _: committing("flights", 1), 9, first_partition),
    "OffsetFetch": (
        lambda _: offset_fetch.Request(groups=[offset_fetch.Request.Group(group_id="g", topics=None)]),
        9,
        lambda it: int(it.groups[0].error_code),
    ),
    "OffsetDelete": (lambda _: offset_delete.Request(group_id="g", topics=()), 0, whole),
    "DescribeGroups": (
        lambda _: describe_groups.Request(groups=["g"]),
        5,
        lambda it: int(it.groups[0].error_code),
    ),
    "DeleteGroups": (lambda _: delete_groups.Request(groups_names=["g"]), 2, lambda it: int(it.results[0].error_code)),
    "ShareGroupHeartbeat": (
        lambda _: share_group_heartbeat.Request(
            group_id="s", member_id="m", member_epoch=0, subscribed_topic_names=["flights"]
        ),
        1,
        whole,
    ),
    "ShareGroupDescribe": (
        lambda _: share_group_describe.Request(group_ids=["s"], include_authorized_operations=False),
        1,
        lambda it: int(it.groups[0].error_code),
    ),
    "AlterShareGroupOffsets": (lambda _: alter_share_group_offsets.Request(group_id="s", topics=()), 0, whole),
    "DeleteShareGroupOffsets": (lambda _: delete_share_group_offsets.Request(group_id="s", topics=()), 0, whole),
}


def world_with_group() -> ClusterWorld:
    """Return a cluster whose broker 1 leads `flights`, which has two records, and the partition of group `g`."""
    world = ClusterWorld(static=STATIC)
    world.create("flights")
    world[1].produce("flights", b"a")
    world[1].produce("flights", b"b")
    world[1].ask(find_coordinator.Request(key="g", coordinator_keys=["g"]))
    world.until(lambda: world.led_by(OFFSETS_TOPIC) != 0, "the group's partition is led")
    world.lead(OFFSETS_TOPIC, by=1)
    world.until(
        lambda: all(hosted.is_loaded for hosted in world[1].broker.coordinators.of(GROUPS).hosted()), "it is loaded"
    )
    committed = world[1].ask(committing("flights", 1), 9)
    assert errors.NONE == first_partition(committed)
    return world


def asked(world: ClusterWorld, number: int, api: str, offset: int) -> int:
    request, version, code = REQUESTS[api]
    return code(world[number].client.ask(request(offset), version))


@pytest.fixture(scope="module")
def on_follower() -> ClusterWorld:
    return world_with_group()


def unconfirmed(topic: str) -> ClusterWorld:
    """
    Return a cluster whose broker 2 has been elected but receives no further messages, so its term stays unconfirmed.
    """
    world = world_with_group()
    shard = world[2].shard(topic)
    world.begin_to_lead(topic, by=2)
    world.steps_until(lambda: shard.replica.leads, "broker 2 is elected")
    world.network.held = lambda _source, _destination: True
    world.stabilize()
    assert shard.is_unconfirmed
    return world


@pytest.fixture(scope="module")
def on_unconfirmed() -> dict[str, ClusterWorld]:
    return {topic: unconfirmed(topic) for topic in ("flights", OFFSETS_TOPIC)}


@pytest.fixture(scope="module")
def former_leader() -> dict[str, int]:
    """Return a code for each API: the error code of its request if the request was waiting when broker 1 stepped down,
    and 0 if the request had already been answered.
    """
    world = world_with_group()
    world.network.held = lambda _source, _destination: True
    Client(world[1]).send(committing("flights", 2), 9)  # responses to the group's later requests wait for this commit
    clients = {api: Client(world[1]) for api, *_ in ROWS}
    sent = {api: client.send(REQUESTS[api][0](2), REQUESTS[api][1]) for api, client in clients.items()}
    world.stabilize()
    codes = {api: 0 for api, client in clients.items() if client.answer(*sent[api]) is not None}
    world.pass_time(SILENT_MS - 500)
    assert all(client.answer(*sent[api]) is None for api, client in clients.items() if api not in codes)

    world.pass_time(1_000)

    for api, client in clients.items():
        if api not in codes:
            answered = client.answer(*sent[api])
            codes[api] = -1 if answered is None else REQUESTS[api][2](answered)
    return codes


@pytest.mark.parametrize(("api", "code"), [(row[0], row[1]) for row in ROWS])
def test_a_follower_refuses_clients(on_follower: ClusterWorld, api: str, code: str) -> None:
    """A follower refuses requests of clients: every replica has the data, but only the leader may serve it."""
    assert code == errors.name(asked(on_follower, 2, api, 2))


@pytest.mark.parametrize(("api", "code"), [(row[0], row[2]) for row in ROWS])
def test_a_leader_with_an_unconfirmed_term_refuses_clients(
    on_unconfirmed: dict[str, ClusterWorld], api: str, code: str
) -> None:
    """KIP-207: the leader may not yet know that records which clients have already read are committed."""
    is_group = code == "NOT_COORDINATOR"
    world = on_unconfirmed[OFFSETS_TOPIC if is_group else "flights"]

    answered = asked(world, 2, api, world[2].partition("flights").high_watermark + 1)

    assert code == errors.name(answered)


@pytest.mark.parametrize(("api", "code"), [(row[0], row[3] or "NONE") for row in ROWS])
def test_requests_that_wait_when_a_leader_steps_down_have_an_unknown_outcome(
    former_leader: dict[str, int], api: str, code: str
) -> None:
    """A leader that has had no contact with a majority for two seconds steps down, so no request waits forever."""
    assert code == errors.name(former_leader[api])


def test_every_api_of_partitions_and_groups_is_in_the_table() -> None:
    """The table in `docs/protocol/leadership.md` has a row for every API in `REQUESTS`, in the same order."""
    assert list(REQUESTS) == [row[0] for row in ROWS]


def test_an_unconfirmed_leader_serves_committed_records(on_unconfirmed: dict[str, ClusterWorld]) -> None:
    """Records below the high watermark that the leader knows of cannot be lost."""
    world = on_unconfirmed["flights"]

    answered = world[2].client.ask(fetching(0), 12)

    (partition,) = answered.responses[0].partitions
    known = world[2].partition("flights").high_watermark
    assert known > 0
    assert (errors.NONE, known) == (partition.error_code, partition.high_watermark)


@pytest.mark.parametrize(("version", "code"), [(4, errors.LEADER_NOT_AVAILABLE), (5, errors.OFFSET_NOT_AVAILABLE)])
def test_older_clients_get_an_error_that_they_retry(
    on_unconfirmed: dict[str, ClusterWorld], version: int, code: int
) -> None:
    """KIP-207: clients know OFFSET_NOT_AVAILABLE from version 5 on; an older client would not retry it."""
    answered = on_unconfirmed["flights"][2].client.ask(listing(0), version)

    assert code == first_partition(answered)


def test_only_offsets_below_the_log_start_or_above_its_end_are_out_of_range(on_follower: ClusterWorld) -> None:
    """
    Only offsets below the log start or above the log end get OFFSET_OUT_OF_RANGE.  Between the high watermark and the
    log end there is nothing to read yet, but an error would make a client reset its offset.
    """
    leader = on_follower[1]

    codes = [asked(on_follower, 1, "Fetch", offset) for offset in (-1, 3)]

    assert ([errors.OFFSET_OUT_OF_RANGE] * 2, 2) == (codes, leader.partition("flights").log.end_offset)


def test_clients_are_not_sent_to_a_leader_that_has_just_fallen_silent() -> None:
    """
    A leader that has just fallen silent is no longer named to clients: requests to it would time out, and another
    leader will be elected before they do.
    """
    world = ClusterWorld()
    world.create("flights", brokers=(1, 2, 3))
    topic = world[2].broker.image.topics["flights"]
    world.hold(sender=(1,))
    led = []

    for _ in range(6):
        leader = world[2].broker.cluster.leader_of(topic, 0)
        led.append(0 if leader is None else leader.broker_id)
        world.pass_time(250)

    assert [1, 0] == [led[0], led[-1]]
    assert world[2].broker.cluster.is_up(BrokerId(1))
    (shard_id,) = topic.shard_ids
    # For leadership transfers and elections, broker 1 still counts as the leader for a while.
    assert world[2].broker.cluster.reported_leader(shard_id) == 1
    world.pass_time(1_000)
    assert world[2].broker.cluster.reported_leader(shard_id) != 1
