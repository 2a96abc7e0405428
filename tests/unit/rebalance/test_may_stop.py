"""The check before a broker stops."""

from dataclasses import replace

from tests.unit.rebalance.modelled_cluster import ModelledCluster, keys
from tidemill.model.broker_id import BrokerId
from tidemill.model.broker_state import Presence
from tidemill.model.move_reason import Reason
from tidemill.rebalance.may_stop import may_stop
from tidemill.rebalance.slices import finish


def asked(cluster: ModelledCluster, broker_id: int) -> dict[int, str]:
    found = finish(may_stop(cluster.image, cluster.view, BrokerId(broker_id)))
    return {problem.shard_id: problem.sentence for problem in found}


def test_a_broker_may_stop_while_every_shard_keeps_an_in_sync_majority() -> None:
    """Two of three replicas go on without the third one."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    cluster.add(2, 3, 4)

    assert {} == asked(cluster, 1)


def test_no_second_broker_may_stop() -> None:
    """A broker that is down, or that has not caught up after its restart, keeps the others from stopping."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    cluster.add(1, 3, 4)
    cluster.lose(2, Presence.ACTIVE, 5_000)

    assert {1: "shard 1: 1 of 3 replicas would be left in sync, and 2 are needed; broker 2 not in sync"} == asked(
        cluster, 1
    )


def test_a_replica_that_was_in_sync_and_is_not_live_does_not_count() -> None:
    """The leader's last report is older than the silence of that broker."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    view = cluster.view
    cluster.lose(2, Presence.ACTIVE, 5_000)
    view = replace(cluster.view, shards=view.shards)

    assert [(1, False)] == [(it.shard_id, it.is_lasting) for it in finish(may_stop(cluster.image, view, BrokerId(1)))]


def test_replicas_that_are_too_few_to_do_without_one() -> None:
    """One replica, or two, never go on without one."""
    cluster = ModelledCluster([None] * 3)
    cluster.add(1)
    cluster.add(1, 2)

    found = asked(cluster, 1)
    lasting = [it.is_lasting for it in finish(may_stop(cluster.image, cluster.view, BrokerId(1)))]

    assert [True, True] == lasting
    assert "shard 1: its only replica is there" == found[1]
    assert "shard 2: 1 of 2 replicas would be left in sync, and 2 are needed; its replicas are too few" in found[2]


def test_the_voters_in_force_count_and_not_the_plan() -> None:
    """A member that is planned no more, but votes still, is as needed as before; a learner is not needed yet."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    cluster.plan(1, 4, 2, 3, reason=Reason.USER)
    cluster.lose(2, Presence.ACTIVE, 5_000)
    cluster.shards[1].voters = keys(1, 2, 3)

    assert [1] == [*asked(cluster, 1)]
    assert [] == [*asked(cluster, 4)]


def test_a_shard_without_figures_refuses() -> None:
    """It is not known who is in sync: only brokers without a replica may stop."""
    cluster = ModelledCluster([None] * 4)
    cluster.forget(cluster.add(1, 2, 3))

    assert [[1], []] == [[*asked(cluster, broker_id)] for broker_id in (1, 4)]
