"""The check before a drain."""

from tests.unit.rebalance.modelled_cluster import GIB, ModelledCluster
from tidemill.model.broker_id import BrokerId
from tidemill.model.broker_state import Drain, Presence
from tidemill.rebalance.drain_check import NoPlace, Obstacle, check_drain
from tidemill.rebalance.slices import finish


def checked(cluster: ModelledCluster, broker_id: int) -> list[NoPlace]:
    cluster.decide()
    check = check_drain(cluster.image, cluster.view, cluster.policy, cluster.now_ms, cluster.index, BrokerId(broker_id))
    return [*finish(check)]


def test_drain_is_checked_first_and_each_shard_that_has_no_place_is_named() -> None:
    """With a replication factor of three on three brokers, a drain would wait for ever without a word."""
    cluster = ModelledCluster([None] * 3)
    cluster.add(1, 2, 3)
    cluster.add(1, 2)
    cluster.add(2, 1, 3)

    found = checked(cluster, 1)

    assert [(1, Obstacle.REPLICAS), (3, Obstacle.REPLICAS)] == [(place.shard_id, place.obstacle) for place in found]
    assert "shard 1 has no place: its 3 replicas need as many brokers, and 2 brokers can take replicas" == (
        found[0].sentence
    )


def test_a_shard_with_one_replica_needs_one_broker() -> None:
    cluster = ModelledCluster([None])
    cluster.add(1)

    (place,) = checked(cluster, 1)

    assert "shard 1 has no place: its 1 replica needs a broker, and 0 brokers can take replicas" == place.sentence


def test_disks_are_filled_on_paper_by_all_shards_together() -> None:
    """Each shard alone would fit, but not all of them."""
    cluster = ModelledCluster([None] * 4)
    for _ in range(3):
        cluster.add(1, 2, 3, size=10 * GIB)
    cluster.other_bytes[4] = 55 * GIB

    found = checked(cluster, 1)

    assert [(3, Obstacle.DISK)] == [(place.shard_id, place.obstacle) for place in found]
    assert "with its 10.0 GiB, the disk of 1 broker would be more than 80 % full" in found[0].sentence


def test_a_disk_that_nothing_is_known_of_is_not_called_full() -> None:
    """A broker that has just started reports its disk some seconds later; an operator has to wait, not to add space."""
    cluster = ModelledCluster([None] * 5)
    cluster.add(1, 2, 3)
    cluster.set(4, disk_total=None)
    cluster.other_bytes[5] = 90 * GIB

    (mixed,) = checked(cluster, 1)
    cluster.set(5, disk_total=None)
    (unknown,) = checked(cluster, 1)

    assert mixed.sentence.endswith(
        "the disk of 1 broker would be more than 80 % full; 1 broker has not told yet how full its disk is"
    )
    assert unknown.sentence == "shard 1 has no place: 2 brokers have not told yet how full their disks are"


def test_copies_under_way_fill_disks_too() -> None:
    """What is on its way to a disk will be there when the drain comes to it."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3, size=10 * GIB)
    cluster.add(3, 2, size=20 * GIB)
    cluster.plan(2, 3, 4, reason=cluster.shards[2].reason)
    cluster.other_bytes[4] = 55 * GIB

    assert [(1, Obstacle.DISK)] == [(place.shard_id, place.obstacle) for place in checked(cluster, 1)]


def test_fewer_racks_are_a_warning() -> None:
    """There is a place, but the shard would survive fewer failures of racks."""
    cluster = ModelledCluster(["a", "b", "c", "a"])
    cluster.add(1, 2, 3)

    (warning,) = checked(cluster, 3)

    assert Obstacle.RACK == warning.obstacle
    assert "shard 1 would be on 2 of 3 racks: broker 4 takes it" == warning.sentence
    assert [] == checked(cluster, 1)


def test_a_drain_must_not_keep_another_one_from_its_end() -> None:
    """
    Broker 3 is being emptied, and broker 4 is the only one that can take what it has.  A drain of broker 4, which
    carries nothing yet, would leave the other drain waiting for ever.
    """
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    cluster.set(3, drain=Drain.ALL)

    (place,) = checked(cluster, 4)

    assert (1, Obstacle.REPLICAS) == (place.shard_id, place.obstacle)
    assert "its 3 replicas need as many brokers, and 2 brokers can take replicas" in place.sentence


def test_no_advice_is_given_to_undrain_the_broker_that_is_not_drained_yet() -> None:
    """The check drains it on paper only."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    cluster.add(2, 3, 4)
    cluster.set(4, drain=Drain.ALL)

    found = checked(cluster, 3)

    assert found
    assert not any("broker 3 is drained" in it.sentence or "brokers 3, 4 are" in it.sentence for it in found)


def test_a_drain_that_is_stuck_anyway_is_no_reason_to_refuse_another_one() -> None:
    """The other drain was forced, and broker 4 carries nothing that needs a place."""
    cluster = ModelledCluster([None] * 3 + ["d"])
    cluster.add(1, 2, 3, 4)
    cluster.add(1, 2, 3)
    cluster.set(3, drain=Drain.ALL)
    cluster.set(4, drain=Drain.LEADERS)

    assert [(1, Obstacle.REPLICAS)] == [(place.shard_id, place.obstacle) for place in checked(cluster, 4)]


def test_two_drained_brokers_of_one_shard_need_two_others() -> None:
    cluster = ModelledCluster([None] * 5)
    cluster.add(1, 2, 3)
    cluster.set(3, drain=Drain.ALL)

    two = checked(cluster, 2)
    cluster.lose(5, Presence.SILENT)

    assert ([], [1]) == (two, [place.shard_id for place in checked(cluster, 2)])


def test_a_shard_that_cannot_change_its_members_is_named() -> None:
    """A shard without figures, or with a replica that is away, waits until that is mended."""
    cluster = ModelledCluster([None] * 4)
    cluster.forget(cluster.add(1, 2, 3))
    cluster.add(1, 2, 3)
    cluster.lose(3, Presence.SILENT, 61_000)

    found = checked(cluster, 1)

    assert [Obstacle.FIGURES, Obstacle.FIGURES] == [place.obstacle for place in found]
    assert "no leader has told" in found[0].sentence
    assert "broker 3 silent for 1 min 1 s" in found[1].sentence


def test_a_drain_that_passes_ends() -> None:
    """The planner empties a broker for which the check found nothing, whatever the limits on copies."""
    cluster = ModelledCluster(["a", "b", "c", "a", "b", "c"])
    for number in range(20):
        cluster.add(*((number + place) % 6 + 1 for place in range(3)))
    assert [] == checked(cluster, 2)
    cluster.set(2, drain=Drain.ALL)

    cluster.run()

    assert 0 == cluster.counts()[2]
