"""Brokers tell the controller what they and their shards use: when it changes, and once more when they rest."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.broker.load import load_reporter
from tidemill.broker.load.load_reporter import BYTES_IN_FLOOR, CPU_FLOOR, SIZE_FLOOR, differs
from tidemill.broker.load.reported_load import ReportedLoad
from tidemill.metadata.topics import DeleteTopics
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.model.topic import METADATA_TOPIC
from tidemill.peer.load import Load, ShardLoad
from tidemill.raft.voters import Membership
from tidemill.rebalance.view import ShardView

INTERVAL_MS = 1_000
STATIC = {"tidemill.load.report.ms": str(INTERVAL_MS), "auto.leader.rebalance.enable": "false"}


class World(ClusterWorld):
    """Three brokers; records the sections that each of them sends."""

    def __init__(self, static: Mapping[str, str] = STATIC, **how: int) -> None:
        self.sent: list[tuple[int, Load]] = []
        super().__init__(static=static, **how)
        self.record()

    def record(self) -> None:
        for node in self.nodes:
            peers = node.broker.cluster.peers

            def send_load(voter: ReplicaKey, load: Load, number: int = node.number, send=peers.send_load) -> None:  # type: ignore[no-untyped-def]
                self.sent.append((number, load))
                send(voter, load)

            peers.send_load = send_load  # type: ignore[method-assign]

    @property
    def reported(self) -> ReportedLoad:
        return self.controller.broker.reported_load

    def shard_id(self, topic: str = "flights", number: int = 0) -> ShardId:
        return self[1].shard(topic, number).shard_id

    def view(self, topic: str = "flights") -> ShardView:
        return self.reported.shards[self.shard_id(topic)]

    def rest(self) -> None:
        """Let all rates become zero."""
        self.pass_time(40 * INTERVAL_MS)
        self.sent.clear()

    def sections_of(self, shard_id: ShardId) -> list[ShardLoad]:
        return [shard for _, load in self.sent for shard in load.shards if shard.shard_id == shard_id]


@pytest.fixture
def world() -> World:
    found = World()
    found.create("flights", brokers=(2, 3, 1))
    return found


def test_the_controller_knows_every_broker_and_every_shard(world: World) -> None:
    """The controller's own figures arrive like those of the others."""
    world[2].produce("flights", b"x" * 5_000)

    world.pass_time(2 * INTERVAL_MS)

    shard, view = world[2].shard("flights"), world.view()
    assert {1, 2, 3} == {*world.reported.brokers}
    assert {*world.reported.shards} == {*world[1].broker.image.shards}
    assert (view.leader, view.membership, view.in_sync) == (2, shard.replica.membership, {1, 2, 3})
    assert view.size == shard.partitions[0].log.size_bytes > 5_000
    disk = world[3].disk
    figures = world.reported.brokers[BrokerId(3)]
    assert (disk.total_space(), disk.total_space() - disk.free_space()) == (figures.disk_total, figures.disk_used)


def test_cpu_time_is_reported_and_shared_out(world: World) -> None:
    """A broker that uses half a core, for two shards that are written to alike, spends a quarter on each."""
    world.create("trains", brokers=(2, 3, 1))
    for _ in range(60):
        world[2].cpu_us += INTERVAL_MS * 100
        for topic in ("flights", "trains"):
            world[2].produce(topic, b"x" * 100)
        world.pass_time(INTERVAL_MS // 5)

    assert world.reported.brokers[BrokerId(2)].cpu == pytest.approx(500, abs=15)
    assert [world.view(topic).cpu for topic in ("flights", "trains")] == pytest.approx([245, 245], abs=15)
    assert world.view().bytes_in == pytest.approx(5 * 168, rel=0.1)


def test_what_is_followed_counts_for_the_share_of_what_is_led(world: World) -> None:
    """A follower writes as many bytes as the leader: its CPU time is not spent on the shards that it leads."""
    world.create("trains", brokers=(3, 2, 1))
    for _ in range(60):
        world[2].cpu_us += INTERVAL_MS * 100
        world[2].produce("flights", b"x" * 100_000)
        world[3].produce("trains", b"x" * 100_000)
        world.pass_time(INTERVAL_MS // 5)

    share = (25 * 1024 + 100_000) / (25 * 1024 + 200_000)
    assert world.view().cpu == pytest.approx(500 * share, rel=0.05)


def test_a_change_of_the_members_is_reported_at_the_next_tick(world: World) -> None:
    """The controller acts on the members in force: it must not wait for the next interval."""
    world.rest()
    leader = world[2].shard("flights")
    fewer = Membership(leader.replica.membership.voters[:2])
    leader.change_membership(fewer, world.clock.wall_ms())

    world.pass_time(50)

    assert world.view().membership == fewer
    assert world.view().in_sync == {voter.broker_id for voter in fewer.voters}


def test_a_new_learner_is_reported_at_the_next_tick(world: World) -> None:
    """A learner changes nothing about the voters in sync; it lacks everything that the leader has in memory."""
    world.rest()
    leader = world[2].shard("flights")
    learner = ReplicaKey(BrokerId(9), DirectoryId(bytes(16)))
    more = Membership(leader.replica.membership.voters, (learner,))
    leader.change_membership(more, world.clock.wall_ms())

    world.pass_time(50)

    assert more == world.view().membership
    assert [learner.broker_id] == [*world.view().behind]


def test_a_voter_that_is_lost_is_reported_at_the_next_tick(world: World) -> None:
    """The controller knows which shards have a majority in sync."""
    world.rest()
    shard_id = world.shard_id()
    world.cut_off(3)
    world.until(lambda: bool(world[2].broker.cluster.out_of_sync), "broker 2 misses broker 3")

    world.pass_time(50)

    assert {1, 2} == world.view().in_sync
    assert {1, 2} == world.sections_of(shard_id)[-1].in_sync


def test_a_shard_that_rests_is_reported_only_after_a_change(world: World) -> None:
    """
    After a change, three further samples are reported: the planner trusts only figures that are newer than a step, and
    a shard that rests has no others.
    """
    world.rest()
    world.pass_time(10 * INTERVAL_MS)
    resting = world.sections_of(world.shard_id())
    world.lead("flights", by=3)
    led_at_ms = world.clock.monotonic_ms()
    world.pass_time(30 * INTERVAL_MS)

    sent = world.sections_of(world.shard_id())
    assert ([], [False, True, True, True]) == (resting, [it.is_measured for it in sent])
    assert world.view().figures_at_ms > led_at_ms + 2.9 * INTERVAL_MS
    assert 3 == world.view().leader


def test_small_changes_are_reported_when_they_are_old(world: World) -> None:
    """A shard that grows slowly is reported every six intervals, and once more when it rests."""
    world.rest()
    for _ in range(24):
        world[2].produce("flights", b"x" * 100)
        world.pass_time(INTERVAL_MS)
    grown = len(world.sections_of(world.shard_id()))
    world.rest()

    assert grown in (4, 5)
    assert world.view().size == world[2].partition("flights").log.size_bytes
    assert 0 == world.view().bytes_in


SAMPLE = ShardLoad(
    shard_id=ShardId(1),
    term=1,
    size=8 * SIZE_FLOOR,
    is_measured=True,
    bytes_in=8 * BYTES_IN_FLOOR,
    cpu=8 * CPU_FLOOR,
    voters=(),
    learners=(ReplicaKey(BrokerId(1), DirectoryId(bytes(16))),),
    in_sync=frozenset(),
    behind=(8 * SIZE_FLOOR,),
)


@pytest.mark.parametrize("name", ["size", "bytes_in", "cpu", "behind"])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_quarter_more_or_less_is_a_change(name: str, sign: int) -> None:
    """A change by a quarter counts, unless it is so small that it changes no plan."""
    value = 8 * {"size": SIZE_FLOOR, "bytes_in": BYTES_IN_FLOOR, "cpu": CPU_FLOOR, "behind": SIZE_FLOOR}[name]

    def sample(size: int) -> ShardLoad:
        return replace(SAMPLE, **{name: (size,) if name == "behind" else size})

    quarter, less = value + sign * value // 4, value + sign * (value // 4 - 1)
    small, floor = (sample(value // 80), sample(value // 80 + value // 8 - 1)), sample(value // 80 + value // 8)
    assert (True, False) == (differs(SAMPLE, sample(quarter)), differs(SAMPLE, sample(less)))
    assert (False, True) == (differs(*small), differs(small[0], floor))


def test_a_new_controller_receives_everything(world: World) -> None:
    """It begins with nothing, and the shards that rest would never be reported again."""
    world.rest()
    former = world.controller
    assert former.number == 1
    world.begin_to_lead(METADATA_TOPIC, by=2)
    world.until(lambda: world[2].broker.controller.leads, "broker 2 is the controller")

    world.pass_time(150)

    load = world[2].broker.reported_load
    assert ({1, 2, 3}, {*world[1].broker.image.shards}) == ({*load.brokers}, {*load.shards})
    assert ({}, {}) == (former.broker.reported_load.brokers, former.broker.reported_load.shards)


def test_everything_is_sent_again_after_a_loss(world: World) -> None:
    """A connection that is lost may have lost what was sent on it last."""
    world.rest()
    world.pass_time(INTERVAL_MS)
    world.sent.clear()
    (link, *_) = [
        it
        for it in world.network.links
        if {it.owner.hello().address, it.other.owner.hello().address} == {world[1].address, world[2].address}
    ]
    link.close("a fault")
    world.pass_time(100)

    assert world.sections_of(world.shard_id())
    assert any(load.broker is not None for number, load in world.sent if number == 2)


def test_many_shards_are_spread_over_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that leads thousands of shards neither holds the event loop nor sends large frames."""
    monkeypatch.setattr(load_reporter, "SHARDS_MAX", 2)
    monkeypatch.setattr(load_reporter, "SAMPLES_MAX", 2)
    world = World()
    for number in range(5):
        world.create(f"topic-{number}", brokers=(2, 3, 1))
    world.rest()
    world.begin_to_lead(METADATA_TOPIC, by=3)
    world.until(lambda: world[3].broker.controller.leads, "broker 3 is the controller")
    world.pass_time(500)
    del world[3].broker.reported_load.shards[METADATA_SHARD]  # its new leader has not measured it yet

    sizes = [len(load.shards) for number, load in world.sent if number == 2]
    assert max(sizes) == 2
    assert {*world[3].broker.reported_load.shards} == {*world[1].broker.image.shards} - {METADATA_SHARD}
    assert all(it.figures_at_ms for it in world[3].broker.reported_load.shards.values())


def test_nothing_is_sent_below_the_feature_level() -> None:
    """A controller of an older version does not know the section."""
    world = World(newest_level=1)
    world.create("flights", brokers=(2, 3, 1))

    world.pass_time(3 * INTERVAL_MS)

    assert ([], {}, {}) == (world.sent, world.reported.brokers, world.reported.shards)


def test_deleted_and_closed_shards_are_not_measured(world: World) -> None:
    """The parts of all shards add up to what is measured, when shards come and go."""
    world.create("trains", brokers=(2, 3, 1))
    world[2].produce("trains", b"x" * 100_000)
    world.pass_time(2 * INTERVAL_MS)
    reporter = world[2].broker.load_reporter
    busy = reporter._weights
    topic = world[1].broker.image.topics["trains"]
    world.controller.broker.controller.submit(DeleteTopics(topics=("trains",)))
    world.pass_time(2 * INTERVAL_MS)

    assert topic.shard_ids[0] not in reporter._meters and topic.shard_ids[0] not in world.reported.shards
    assert busy > 100_000 / 3 > reporter._weights
    assert reporter._weights == sum(meter.weight for meter, _ in reporter._meters.values())
    assert METADATA_SHARD in reporter._meters
