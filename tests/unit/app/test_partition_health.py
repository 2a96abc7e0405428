"""Brokers count the partitions that have no leader, lack a replica or have damaged files."""

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.maintenance.planned import plan
from tidemill.app.partition_health import PartitionHealth, partition_health
from tidemill.broker.peers.cluster import HEARD_MS
from tidemill.broker.peers.replica_lag import RESTED_TICKS
from tidemill.storage.partition.segment import SegmentDamaged

CHECKED_MS = 250 * (RESTED_TICKS + 1)


def health_of(world: ClusterWorld, number: int) -> PartitionHealth:
    return partition_health(world[number].broker)


@pytest.fixture
def world() -> ClusterWorld:
    """Return three brokers, of which broker 1 leads `flights`, a topic that requires all three replicas."""
    world = ClusterWorld()
    world.create("flights", 2, min_insync_replicas="3")
    world.create("trains", 3)
    for number in range(3):
        world.lead("trains", number, by=1)
    world.lead("flights", by=1)
    world.lead("flights", 1, by=1)
    world.pass_time(CHECKED_MS)
    return world


def test_a_healthy_cluster_has_no_partition_in_danger(world: ClusterWorld) -> None:
    """
    Each leader counts the partitions that it leads.  Besides the five partitions that broker 1 leads, there is the one
    of the metadata topic, whichever broker leads it.
    """
    counts = [health_of(world, number) for number in (1, 2, 3)]

    assert 6 == sum(it.led for it in counts)
    assert [0] * 3 == [
        it.leaderless + it.under_replicated + it.under_min_insync + it.damaged for it in counts
    ]  # fmt: skip


def test_the_leader_counts_partitions_that_lack_a_replica(world: ClusterWorld) -> None:
    """
    Only leaders count the partitions that lack a replica, so that the sum over all brokers is right.  The partitions
    still have leaders.
    """
    follower = 3 if not world[3].broker.controller.leads else 2
    other = 5 - follower

    world.stopped.add(follower)
    world.cut_off(follower)
    world.pass_time(CHECKED_MS)

    leaders = [health_of(world, number) for number in (1, other)]
    assert (6, 2) == (sum(it.under_replicated for it in leaders), sum(it.under_min_insync for it in leaders))
    assert 5 <= leaders[0].under_replicated
    assert [0, 0] == [it.leaderless for it in leaders]


def test_a_replica_that_is_on_its_way_is_missing_but_does_not_endanger_writes() -> None:
    """
    Writes count the voters in force, all of which are in sync until the newcomer has everything.
    """
    world = ClusterWorld(brokers=4)
    world.create("flights", min_insync_replicas="3")
    world.lead("flights", by=1)
    world.stopped.add(4)
    world.cut_off(4)
    plan(world, "flights", 1, 2, 4)

    world.pass_time(CHECKED_MS)

    health = health_of(world, 1)
    assert 1 == health.under_replicated
    assert 0 == health.under_min_insync


def test_a_default_above_the_number_of_replicas_demands_all_of_them() -> None:
    """
    A topic with one replica accepts writes, although the default of min.insync.replicas is 2.
    """
    world = ClusterWorld(static={"min.insync.replicas": "2"})
    world.create("notes", brokers=(1,))
    world.lead("notes", by=1)
    world.pass_time(CHECKED_MS)

    assert 0 == health_of(world, 1).under_min_insync


def test_every_broker_counts_the_partitions_without_a_leader(world: ClusterWorld) -> None:
    """
    When two of three brokers are down, the third one counts every partition as leaderless, because it leads nothing and
    hears no leader.
    """
    for number in (1, 2):
        world.stopped.add(number)
        world.cut_off(number)
    world.pass_time(CHECKED_MS)

    health = health_of(world, 3)

    assert (6, 0, 0) == (health.leaderless, health.led, health.under_replicated)


def test_a_leader_that_is_not_heard_is_none(world: ClusterWorld) -> None:
    """
    A partition counts as leaderless if its leader is no longer heard: the connection to the leader may still be open,
    so clients that were sent there would wait until their requests time out.
    """
    world.hold(sender=(1,))

    world.pass_time(HEARD_MS + 250)

    assert 5 <= health_of(world, 2).leaderless


def test_partitions_with_damaged_files_are_counted_until_they_are_repaired(world: ClusterWorld) -> None:
    """
    The broker with the damaged file counts every partition of the shard, because its replica of the entire shard is
    unusable.
    """
    node = world[3]
    world[1].produce("flights", b"value")
    partition = node.partition("flights")

    partition.shard.damage.mark(SegmentDamaged(partition.log.segments[0].path, 0, 0, "a flipped bit"))
    damaged = health_of(world, 3).damaged
    world.until(lambda: not health_of(world, 3).damaged, "it is repaired")

    assert 2 == damaged
