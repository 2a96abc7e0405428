"""The metadata do with fewer replicas where no broker is left for one."""

import pytest

from tests.unit.rebalance.modelled_cluster import GIB, ModelledCluster, ids
from tidemill.model.broker_id import BrokerId
from tidemill.model.broker_state import Drain
from tidemill.model.move_reason import Reason
from tidemill.model.shard import METADATA_SHARD
from tidemill.rebalance.drain_check import check_drain
from tidemill.rebalance.slices import finish


def with_metadata(*brokers: int, count: int) -> ModelledCluster:
    cluster = ModelledCluster([None] * count)
    cluster.add(*brokers, shard_id=METADATA_SHARD, size=1_000)
    cluster.decide()
    return cluster


@pytest.mark.parametrize("cause", [Reason.DRAIN, Reason.REPLACE])
def test_a_broker_leaves_a_cluster_of_five(cause: Reason) -> None:
    """Four replicas tolerate as many failures as are left to tolerate; otherwise the broker could never be removed."""
    cluster = with_metadata(1, 2, 3, 4, 5, count=5)
    if cause is Reason.DRAIN:
        cluster.set(3, drain=Drain.ALL)
    else:
        cluster.lose(3)

    plan = cluster.decide()

    (step,) = plan.steps
    assert ([1, 2, 4, 5], cause, 0) == (ids(step.replicas), step.reason, step.size)
    assert step.sentence.startswith("shard 0 → without broker 3: broker 3 ")
    assert step.sentence.endswith("; 4 replicas stay")
    assert not plan.refusals


def test_the_leader_of_the_metadata_may_be_the_one_that_leaves() -> None:
    cluster = with_metadata(1, 2, 3, 4, 5, count=5)
    cluster.set(1, drain=Drain.ALL)

    (step,) = cluster.decide().steps

    assert [2, 3, 4, 5] == ids(step.replicas)


def test_another_broker_is_preferred_to_fewer_replicas() -> None:
    cluster = with_metadata(1, 2, 3, 4, 5, count=6)
    cluster.set(3, drain=Drain.ALL)

    (step,) = cluster.decide().steps

    assert [1, 2, 6, 4, 5] == ids(step.replicas)


@pytest.mark.parametrize(("brokers", "shard_id"), [((1, 2, 3), METADATA_SHARD), ((1, 2, 3, 4, 5), 7)])
def test_three_replicas_and_the_replicas_of_users_stay(brokers: tuple[int, ...], shard_id: int) -> None:
    """Two replicas would tolerate no failure; and a user has asked for so many replicas of a topic."""
    cluster = ModelledCluster([None] * len(brokers))
    cluster.add(*brokers, shard_id=shard_id)
    cluster.set(3, drain=Drain.ALL)

    plan = cluster.decide()

    assert not plan.steps
    assert f"need as many brokers, and {len(brokers) - 1} brokers can take replicas" in plan.refusals[0].sentence


def test_a_full_disk_is_no_reason_for_fewer_replicas() -> None:
    """A broker is there for it, and the disk can be relieved."""
    cluster = with_metadata(1, 2, 3, 4, 5, count=6)
    cluster.other_bytes[6] = 90 * GIB
    cluster.set(3, drain=Drain.ALL)

    assert not [step for step in cluster.decide().steps if step.shard_id == METADATA_SHARD]


def test_a_broker_of_five_can_be_drained() -> None:
    cluster = with_metadata(1, 2, 3, 4, 5, count=5)
    cluster.add(1, 2, 3)

    check = check_drain(cluster.image, cluster.view, cluster.policy, cluster.now_ms, cluster.index, BrokerId(3))

    assert not finish(check)
