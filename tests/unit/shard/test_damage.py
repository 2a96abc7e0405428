"""Damaged files are found, marked, and repaired from the other replicas."""

from typing import Any

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.batches.batch import HEADER_BYTES, spans
from tidemill.model import errors
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.shard.shard import Shard
from tidemill.storage.journal.shard_log import TAIL_ENTRIES, ShardLog
from tidemill.storage.partition.segment import Segment, SegmentDamaged
from tidemill.storage.store import Store
from tidemill.wire.messages import fetch


@pytest.fixture
def world() -> ClusterWorld:
    """
    A cluster with one topic, which broker 1 leads; every replica has five records in its segments and none in memory.
    """
    world = ClusterWorld()
    world.create("flights")
    world.lead("flights", by=1)
    for number in range(5):
        world[1].produce("flights", b"%d" % number)
    world.pass_time(1_000)
    for node in world.nodes:
        node.partition("flights", 0).log.tail.clear()
    return world


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> list[ShardId]:
    """The shards that were marked as damaged, in the order of the marks."""
    found: list[ShardId] = []
    mark = Store.mark_damage

    def noted(self: Store, log: ShardLog, *place: Any) -> None:
        found.append(log.shard_id)
        mark(self, log, *place)

    monkeypatch.setattr(Store, "mark_damage", noted)
    return found


def fetched(world: BrokerWorld) -> int:
    """Return the error code of a fetch from offset 0."""
    wanted = fetch.Request.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = fetch.Request(
        max_wait_ms=0, min_bytes=0, topics=[fetch.Request.Topic(topic="flights", partitions=[wanted])]
    )
    code: int = world.ask(request, version=12).responses[0].partitions[0].error_code
    return code


def rot(node: BrokerWorld, shard: Shard, position: int = HEADER_BYTES) -> Segment:
    """Flip a bit at `position` of the first segment, by default in the first batch.  Return the segment."""
    (partition,) = shard.log.partitions.values()
    segment = partition.segments[0]
    assert segment.written
    node.disk.flip(segment.path, position)
    return segment


def holds_all(shard: Shard) -> bool:
    """Return whether the segments hold all records up to the high watermark."""
    (partition,) = shard.partitions.values()
    log, offset = partition.log, 0
    log.tail.clear()
    while offset < partition.high_watermark:
        found = log.read(offset, 1, partition.high_watermark, may_wait=True)
        assert found is not None
        offset = [*spans(found[0][0])][-1].header.end_offset
    return partition.high_watermark >= 5


def test_a_leader_that_reads_damaged_bytes_yields_leadership_and_is_repaired(
    world: ClusterWorld, marked: list[ShardId]
) -> None:
    """
    Damaged bytes are never served: the fetch fails, and its retry is served by the next leader.
    """
    damaged = world[1].shard("flights")
    rot(world[1], damaged)

    refused = fetched(world[1])
    world.until(lambda: world.led_by("flights") in (2, 3), "another replica leads")
    world.until(lambda: not damaged.replica.is_damaged, "it is repaired")

    assert (errors.KAFKA_STORAGE_ERROR, [damaged.shard_id]) == (refused, marked)
    assert (None, True) == (damaged.log.damage, holds_all(damaged))


def test_a_damaged_follower_does_not_count_until_it_is_repaired(world: ClusterWorld) -> None:
    """
    The leader learns that a follower is damaged, and no longer counts it: with one more replica down, nothing commits.
    The broker of the damaged replica remains alive.
    """
    damaged, leader = world[3].shard("flights"), world[1].shard("flights")
    segment = rot(world[3], damaged)
    world.cut_off(2)
    world.hold(to=[3])

    damaged.damage.suspect(SegmentDamaged(segment.path, 0, 0, "a reader has met it"))
    world.until(lambda: not leader.replica.leads, "no replica leads")
    planned = world[1].broker.image.shards[damaged.shard_id]
    in_sync = world[1].broker.cluster.in_sync(planned)
    world.hold()
    world.pass_time(10_000)

    assert ([], True) == (in_sync, damaged.replica.is_damaged)
    assert not any(node.shard("flights").replica.leads for node in (world[1], world[3]))
    world.heal()
    world.until(lambda: not damaged.replica.is_damaged, "it is repaired")
    assert holds_all(damaged)


def test_a_read_that_raced_with_a_change_is_not_marked_as_damage(world: ClusterWorld) -> None:
    """
    A segment is read again before its shard is marked as damaged, because the first read may have raced with a change.
    """
    shard = world[3].shard("flights")
    path = shard.log.partitions[0].segments[0].path

    shard.damage.suspect(SegmentDamaged(path, 0, 0, "haste"))
    world.stabilize()

    assert (None, False) == (shard.log.damage, shard.replica.is_damaged)


def test_a_leader_finds_its_own_damage_when_it_serves_a_pull(world: ClusterWorld, marked: list[ShardId]) -> None:
    """
    A leader that reads damaged bytes for a pull marks its shard; otherwise the installing member would pull the same
    bytes forever.
    """
    first, third = world[1].shard("flights"), world[3].shard("flights")
    world.cut_off(3)
    for number in range(TAIL_ENTRIES + 10):
        world[1].produce("flights", b"%d" % number)
    world.pass_time(1_000)
    first.log.partitions[0].tail.clear()
    rot(world[1], first, first.log.partitions[0].segments[0].written // 2)

    world.heal()
    world.until(lambda: third.replica.commit_index > TAIL_ENTRIES, "the lagging replica has everything")

    world.until(lambda: bool(marked) and not first.replica.is_damaged, "it is repaired")
    assert [first.shard_id] == marked
    assert holds_all(first) and holds_all(third)


def test_a_shard_with_two_of_three_replicas_damaged_stays_unavailable(world: ClusterWorld) -> None:
    """
    A shard with two of three replicas damaged stays unavailable: if the undamaged replica led alone, records that only
    the damaged two had would be lost.
    """
    damaged = [world[number].shard("flights") for number in (1, 3)]

    for shard in damaged:
        shard.store.mark_damage(shard.log, 0, 0, "rot")
        shard.replica.mark_damaged()
    world.pass_time(10_000)

    assert [True, True] == [shard.replica.is_damaged for shard in damaged]
    assert not any(node.shard("flights").replica.leads for node in world.nodes)


def test_the_metadata_shard_is_repaired_like_any_other(marked: list[ShardId]) -> None:
    """
    While the controller's damaged replica is repaired, another broker is the controller, so the metadata can still be
    changed.
    """
    world = ClusterWorld()
    for number in range(3):
        world.create(f"before-{number}")
    world.pass_time(1_000)
    node = world.controller
    shard = node.broker.shard_table.shards[METADATA_SHARD]
    segment = rot(node, shard)
    shard.partitions[0].log.tail.clear()

    shard.damage.suspect(SegmentDamaged(segment.path, 0, 0, "a reader has met it"))
    world.until(lambda: bool(marked), "it is marked")
    world.until(lambda: not shard.replica.is_damaged, "it is repaired")
    world.create("after")

    assert {"before-0", "before-1", "before-2", "after"} <= {*node.broker.image.topics}


def test_damage_that_cannot_be_repaired_leaves_the_rest_served() -> None:
    """
    Damage to the only replica is not marked: a mark would make the whole shard unavailable, and no other replica could
    repair it.
    """
    world = BrokerWorld()
    world.create("flights")
    world.produce("flights", b"0")
    world.pass_time(1_000)
    partition = world.partition("flights", 0)
    partition.log.tail.clear()
    assert isinstance(partition.shard, Shard)
    rot(world, partition.shard)

    refused = fetched(world)
    world.stabilize()

    assert refused == errors.KAFKA_STORAGE_ERROR
    world.produce("flights", b"1")
    assert (2, True) == (partition.high_watermark, partition.shard.is_serving)
