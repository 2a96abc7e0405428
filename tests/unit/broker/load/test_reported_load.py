"""The controller keeps the last figures of each broker and each shard, as long as they exist."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.broker.broker_world import HandClock
from tidemill.broker.load.reported_load import BrokerFigures, ReportedLoad
from tidemill.broker.peers.leader_table import LeaderTable
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.peer.load import BrokerLoad, Load, ShardLoad
from tidemill.raft.voters import Membership
from tidemill.rebalance.view import ShardView

ME, TWO, THREE = (ReplicaKey(BrokerId(it), DirectoryId(bytes([it]) * 16)) for it in (1, 2, 3))
NEW_DISK = ReplicaKey(BrokerId(2), DirectoryId(b"n" * 16))
SHARD, OTHER = ShardId(7), ShardId(8)
FIGURES = BrokerLoad(disk_total=1_000, disk_used=400, cpu=600, bytes_in=7, bytes_out=8)
REPORT = ShardLoad(
    shard_id=SHARD,
    term=4,
    size=5_000,
    is_measured=True,
    bytes_in=90,
    cpu=250,
    voters=(TWO, ME),
    learners=(THREE,),
    in_sync=frozenset((TWO.broker_id,)),
    behind=(1_234,),
)


def brokers_of(*keys: ReplicaKey) -> dict[BrokerId, Any]:
    return {key.broker_id: SimpleNamespace(voter=key) for key in keys}


class World:
    """What the controller's broker sees of the cluster; implements `LoadView`."""

    def __init__(self) -> None:
        self.me = ME
        self.leaders = LeaderTable(ME)
        self.controller_term = 3
        self.leader: ReplicaKey | None = ME
        topics = {"flights": SimpleNamespace(topic_id=b"f", shard_ids=(SHARD,))}
        self.image: Any = SimpleNamespace(
            shards={SHARD: None, OTHER: None},
            topics=topics,
            topics_by_id={b"f": None},
            brokers=brokers_of(ME, TWO, THREE),
        )
        self.clock = HandClock()
        self.clock.now_ms += 50
        self.load = ReportedLoad(self, self.clock)
        self.leaders.on_change = self.load.leader_changed
        self.leaders.apply_report(TWO, [(SHARD, 4)], is_whole=True)

    def controller(self) -> ReplicaKey | None:
        return self.leader

    def report(self, sender: ReplicaKey = TWO, broker: BrokerLoad | None = None, **changes: Any) -> None:
        """Let a broker report a shard, with changes to `REPORT`."""
        self.load.report(sender, Load(broker=broker, shards=(replace(REPORT, **changes),)))

    @property
    def shard(self) -> ShardView:
        return self.load.shards[SHARD]


@pytest.fixture
def world() -> World:
    return World()


def test_a_report_becomes_the_view_of_a_shard(world: World) -> None:
    """Every figure is passed on, with the time at which the controller has received it."""
    world.report(broker=FIGURES)

    assert world.load.shards == {
        SHARD: ShardView(
            size=5_000,
            bytes_in=90,
            cpu=250,
            membership=Membership((TWO, ME), (THREE,)),
            in_sync=frozenset((TWO.broker_id,)),
            behind={THREE.broker_id: 1_234},
            leader=TWO.broker_id,
            figures_at_ms=50,
        )
    }
    assert world.load.brokers == {
        TWO.broker_id: BrokerFigures(disk_total=1_000, disk_used=400, cpu=600, bytes_in=7, bytes_out=8, at_ms=50)
    }
    assert ([SHARD], []) == ([*world.load.take_changed()], [*world.load.take_changed()])


def test_a_shard_that_has_lost_its_leader_keeps_its_figures(world: World) -> None:
    """The planner must know the size of a shard, and who its members are, to replace those that are lost."""
    world.report()
    world.load.take_changed()

    world.leaders.forget(TWO)

    assert (None, 5_000, 250) == (world.shard.leader, world.shard.size, world.shard.cpu)
    assert [SHARD] == [*world.load.take_changed()]


def test_the_leader_is_the_one_of_the_leader_table(world: World) -> None:
    """A leader is known before its first report, and a leader without a connection is none."""
    world.report()
    world.leaders.apply_report(THREE, [(SHARD, 5)], is_whole=True)
    before = world.shard.leader
    world.leaders.forget(THREE)
    world.report(THREE, term=5)

    assert (THREE.broker_id, None) == (before, world.shard.leader)


def test_a_report_of_an_older_term_is_ignored(world: World) -> None:
    """A broker that has lost its leadership, and does not know it yet, knows older members."""
    world.report(term=4, size=1)
    world.report(THREE, term=6, size=2)
    world.report(term=5, size=3)
    newest = world.shard.size
    world.report(THREE, term=6, size=4)

    assert (2, 4) == (newest, world.shard.size)


def test_a_new_leader_keeps_the_rates_of_the_former_one(world: World) -> None:
    """
    A new leader knows size and members at once, and the rates only after an interval.  Until then the former leader's
    count, from the time when it told them.
    """
    world.report()
    world.clock.now_ms += 1_000
    fresh = {"is_measured": False, "bytes_in": 0, "cpu": 0}
    world.report(THREE, term=5, size=6_000, voters=(THREE,), learners=(), behind=(), **fresh)
    taken_over = world.shard
    world.report(shard_id=OTHER, **fresh)

    assert (6_000, (THREE,), 90, 250, 50) == (
        taken_over.size,
        taken_over.membership and taken_over.membership.voters,
        taken_over.bytes_in,
        taken_over.cpu,
        taken_over.figures_at_ms,
    )
    assert (0, 0) == (world.load.shards[OTHER].cpu, world.load.shards[OTHER].figures_at_ms)


def test_the_shards_of_a_deleted_topic_are_forgotten(world: World) -> None:
    """A deleted shard is no longer counted, and a report that was on its way does not bring it back."""
    world.report()
    world.load.take_changed()
    before, world.image = world.image, SimpleNamespace(
        shards={}, topics={}, topics_by_id={}, brokers=world.image.brokers
    )  # fmt: skip

    world.load.follow(before, world.image)
    changed = [*world.load.take_changed()]
    world.report()

    assert ([SHARD], {}, {}) == (changed, world.load.shards, world.load._terms)


def test_the_figures_of_a_lost_disk_are_forgotten(world: World) -> None:
    """A broker with a new directory, or that was removed, has no figures until it reports some."""
    world.report(broker=FIGURES)
    world.report(THREE, broker=FIGURES)
    before = world.image
    world.image = SimpleNamespace(**{**vars(before), "brokers": brokers_of(ME, NEW_DISK, THREE)})

    world.load.follow(before, world.image)
    world.report(broker=FIGURES)  # by the former process of broker 2

    assert [THREE.broker_id] == [*world.load.brokers]


def test_a_broker_that_is_not_the_controller_keeps_nothing(world: World) -> None:
    """Brokers may report to a former controller for a moment."""
    world.leader = TWO

    world.report(broker=FIGURES)

    assert ({}, {}) == (world.load.brokers, world.load.shards)


def test_a_controller_begins_with_nothing(world: World) -> None:
    """
    Figures from an earlier term are not kept: members may have changed while another broker was the controller, and all
    brokers report again.
    """
    world.report(broker=FIGURES)
    world.load.take_changed()
    world.controller_term = 5
    world.load.tick()
    first = ({**world.load.brokers}, {**world.load.shards}, [*world.load.take_changed()])
    world.report(term=2)
    kept = world.shard.size
    world.leader = None
    world.load.tick()

    assert (({}, {}, [SHARD]), 5_000, {}) == (first, kept, world.load.shards)


def test_a_report_of_a_new_term_survives_the_tick_after_it(world: World) -> None:
    """A report may arrive between the election and the next tick."""
    world.controller_term = 5
    world.report()
    world.load.tick()

    assert [SHARD] == [*world.load.shards]
