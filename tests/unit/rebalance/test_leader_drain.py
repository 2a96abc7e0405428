"""The leaders of a broker that is drained."""

from tests.unit.rebalance.modelled_cluster import ModelledCluster
from tidemill.model.broker_id import BrokerId
from tidemill.model.broker_state import Drain, Presence
from tidemill.rebalance.leader_drain import LeaderDrain, drain_leaders
from tidemill.rebalance.slices import finish


def drained(cluster: ModelledCluster) -> LeaderDrain:
    cluster.set(1, drain=Drain.LEADERS)
    return finish(drain_leaders(cluster.image, cluster.view, BrokerId(1)))


def test_the_first_replica_that_is_in_sync_and_can_lead_gets_the_leadership() -> None:
    """The plan stays as it is, so the leaders come back when the drain ends."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    cluster.add(2, 1, 3)
    cluster.add(1, 4, 2)
    cluster.set(4, drain=Drain.ALL)

    assert ((1, 2), (3, 2)) == drained(cluster).transfers


def test_a_shard_that_no_other_broker_can_lead_is_named() -> None:
    """An operator who waits for the drain reads what keeps it."""
    cluster = ModelledCluster([None] * 3)
    cluster.add(1)
    cluster.add(1, 2, 3)
    cluster.lose(2, Presence.SILENT, 61_000)
    cluster.set(3, is_ready=False)

    found = drained(cluster)

    assert () == found.transfers
    assert ["shard 1", "shard 2"] == [refusal.what for refusal in found.refusals]
