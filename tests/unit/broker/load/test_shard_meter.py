"""A shard's part of what a broker does is measured by what its partitions append and send."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.broker.load import shard_meter
from tidemill.broker.load.shard_meter import ShardMeter
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import METADATA_SHARD
from tidemill.raft.status import MemberStatus
from tidemill.shard.partition import REQUEST_COST
from tidemill.shard.shard import Shard
from tidemill.wire.messages import fetch

SECOND_US = 1_000_000
LEARNER = ReplicaKey(BrokerId(7), DirectoryId(bytes(16)))


@pytest.fixture
def world() -> BrokerWorld:
    found = BrokerWorld()
    found.create("flights", 2)
    return found


def shard_of(world: BrokerWorld, topic: str = "flights") -> Shard:
    shard = world.partition(topic).shard
    assert isinstance(shard, Shard)
    return shard


def fetched(world: BrokerWorld) -> int:
    """Fetch everything of partition 0 and return the size."""
    wanted = fetch.Request.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [fetch.Request.Topic(topic="flights", partitions=[wanted])]
    (answer,) = world.ask(fetch.Request(max_wait_ms=0, min_bytes=0, topics=topics), version=12).responses[0].partitions
    return len(answer.records)


def test_appends_and_reads_have_a_weight(world: BrokerWorld) -> None:
    """Each append and each read of a partition counts as 25 µs and each KiB as 1 µs, whichever partition it is."""
    shard = shard_of(world)
    meter = ShardMeter(shard, 0)
    world.produce("flights", b"x" * 5_000)
    world.produce("flights", b"y" * 3_000, number=1)
    appended = sum(it.log.size_bytes for it in shard.partitions.values())
    sent = fetched(world) + fetched(world)

    meter.sample(SECOND_US, 30 * SECOND_US)

    assert meter.weight == appended + sent + 4 * REQUEST_COST
    assert meter.report(frozenset(), 1_000, meter.weight).bytes_in == appended > 8_000
    assert REQUEST_COST == 25 * 1024  # 25 µs, in bytes that take 1 µs per KiB


def test_a_read_without_records_has_no_weight(world: BrokerWorld) -> None:
    """A consumer that waits for records reads often, and costs little."""
    meter = ShardMeter(shard_of(world), 0)

    assert 0 == fetched(world)
    meter.sample(SECOND_US, 30 * SECOND_US)

    assert 0 == meter.weight


def test_appends_by_the_broker_itself_have_a_weight(world: BrokerWorld) -> None:
    """A coordinator's appends cost as much as those of producers."""
    meter = ShardMeter(world.broker.shard_table.shards[METADATA_SHARD], 0)

    world.create("trains")
    meter.sample(SECOND_US, 30 * SECOND_US)

    assert meter.weight > REQUEST_COST


def test_the_cpu_time_is_shared_out_by_weight(world: BrokerWorld) -> None:
    """A shard with a quarter of all weights has a quarter of what the process used, and nothing if nothing happened."""
    meter = ShardMeter(shard_of(world), 0)
    before = meter.report(frozenset(), 800, 0)
    world.produce("flights", b"x" * 5_000)
    meter.sample(SECOND_US, 30 * SECOND_US)

    after = meter.report(frozenset(), 800, 4 * meter.weight)

    assert (0, False, 200, True) == (before.cpu, before.is_measured, after.cpu, after.is_measured)


def test_the_size_is_that_of_all_segments() -> None:
    """A replica that is copied has the segments of all its partitions."""
    world = BrokerWorld()
    world.create("flights", 2, segment_bytes="1048576")
    for number in (0, 1):
        for _ in range(3):
            world.produce("flights", b"x" * 600_000, number=number)
    shard = shard_of(world)

    report = ShardMeter(shard, 0).report(frozenset(), 0, 0)

    assert min(len(it.log.segments) for it in shard.partitions.values()) > 1
    assert report.size == sum(it.log.size_bytes for it in shard.partitions.values()) > 3_600_000


def learner_of(match_index: int, *, installs: bool = False, floor: tuple[int, int] | None = None) -> MemberStatus:
    return MemberStatus(match_index, match_index, installs, floor)


class Lagging:
    """A shard of which the leader has the newest entries in memory; each entry has as many bytes as its index."""

    def __init__(self, first_index: int, last_index: int, size: int) -> None:
        entries = [SimpleNamespace(payload_bytes=index) for index in range(first_index, last_index + 1)]
        self.members: dict[ReplicaKey, MemberStatus] = {}
        membership = SimpleNamespace(voters=(), learners=(LEARNER,))
        replica = SimpleNamespace(membership=membership, term=3, status=lambda: SimpleNamespace(members=self.members))
        partition = SimpleNamespace(
            cost=0, log=SimpleNamespace(appended_bytes=0, segments=[SimpleNamespace(size=size)])
        )
        self.pulled: int | None = None  # bytes that a member lacks that installs
        shard: Any = SimpleNamespace(
            shard_id=5,
            replica=replica,
            partitions={0: partition},
            missing_bytes=lambda _: self.pulled,
            log=SimpleNamespace(first_index=first_index, last_index=last_index, entries=entries),
        )
        self.meter = ShardMeter(shard, 0)

    def behind(self, member: MemberStatus | None) -> int:
        self.members = {} if member is None else {LEARNER: member}
        (behind,) = self.meter.report(frozenset(), 0, 0).behind
        return behind


@pytest.mark.parametrize(
    ("member", "behind"),
    [
        (learner_of(110), 0),
        (learner_of(108), 109 + 110),
        (learner_of(100), sum(range(101, 111))),
        (learner_of(99), 5_000),
        (learner_of(108, installs=True), 5_000),
        (learner_of(108, floor=(1, 1)), 5_000),
        (None, 5_000),
    ],
    ids=["has all", "lacks two", "lacks what is in memory", "lacks more", "installs", "damaged", "unknown"],
)
def test_a_learner_lacks_the_entries_after_its_own_or_all(member: MemberStatus | None, behind: int) -> None:
    """What is in memory is added up; a learner that needs a snapshot may need everything."""
    assert behind == Lagging(101, 110, 5_000).behind(member)


def test_a_learner_that_installs_lacks_what_it_has_not_pulled_yet() -> None:
    """
    Otherwise a copy makes no progress that can be seen, a disk counts its bytes twice, and the copy is given up shortly
    before its end when the former replica is back.
    """
    lagging = Lagging(101, 110, 5_000)
    lagging.pulled = 1_200

    assert 1_200 == lagging.behind(learner_of(0, installs=True))
    lagging.pulled = 6_000  # an estimate
    assert 5_000 == lagging.behind(learner_of(0, installs=True))


def test_a_shard_with_a_learner_does_not_rest() -> None:
    """While nothing is appended, a learner comes nearer."""
    lagging = Lagging(101, 110, 5_000)
    lagging.meter.sample(SECOND_US, 30 * SECOND_US)
    lagging.members = {LEARNER: learner_of(108)}
    with_learner = lagging.meter.reported = lagging.meter.report(frozenset(), 0, 0)
    rests = lagging.meter.rests
    lagging.meter.reported = replace(with_learner, learners=(), behind=())

    assert (False, True) == (rests, lagging.meter.rests)


def test_a_learner_never_lacks_more_than_there_is() -> None:
    """Retention may have removed the records of entries that are still in memory."""
    assert 200 == Lagging(101, 110, 200).behind(learner_of(108))


def test_a_long_way_behind_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes of a thousand entries are added up at most: the others count as large on average."""
    monkeypatch.setattr(shard_meter, "ENTRIES_MAX", 2)

    assert (109 + 110) * 10 // 2 == Lagging(101, 110, 5_000).behind(learner_of(100))
