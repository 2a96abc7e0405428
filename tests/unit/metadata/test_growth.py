"""The cluster's own topics grow with it."""

import pytest

from tests.unit.metadata.controller_world import NOW_MS, Cluster, admission, registration, voter
from tidemill.metadata.brokers import GrowReplicas
from tidemill.metadata.growth import metadata_learners
from tidemill.metadata.topics import CreateInternalTopic
from tidemill.model.broker_id import BrokerId
from tidemill.model.topic import METADATA_TOPIC, OFFSETS_TOPIC


def brokers(*broker_ids: int) -> frozenset[BrokerId]:
    return frozenset(map(BrokerId, broker_ids))


def test_metadata_has_one_replica_then_three_then_five() -> None:
    """Never an even number; who was there stays, and stays first."""
    cluster = Cluster(brokers=0)
    seen = []

    for broker_id in range(1, 7):
        cluster.join(broker_id)
        seen.append(cluster.replicas(METADATA_TOPIC)[0])

    assert seen == [[1], [1], [1, 2, 3], [1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]
    assert metadata_learners(cluster.image) == (voter(6),)


@pytest.mark.parametrize(
    ("factor", "counts"), [("3", [1, 1, 3, 3, 3]), ("2", [1, 2, 2, 2, 2]), ("1", [1] * 5), ("4", [1, 1, 3, 4, 4])]
)
def test_offsets_grow_as_far_as_they_are_wished(factor: str, counts: list[int]) -> None:
    """An even number only where it is what was asked for."""
    cluster = Cluster(static={"offsets.topic.replication.factor": factor})
    cluster.do(CreateInternalTopic(name=OFFSETS_TOPIC))
    seen = [len(cluster.replicas(OFFSETS_TOPIC)[0])]

    for broker_id in range(2, 6):
        cluster.join(broker_id)
        seen.append(len(cluster.replicas(OFFSETS_TOPIC)[0]))

    assert counts == seen
    assert cluster.replicas(OFFSETS_TOPIC)[0][0] == 1


def test_offsets_that_are_made_late_have_their_replicas_at_once() -> None:
    """As many as there are brokers for, each broker leading a shard."""
    cluster = Cluster(brokers=3)

    cluster.do(CreateInternalTopic(name=OFFSETS_TOPIC))

    assert [2, 3, 1] == [shard[0] for shard in cluster.replicas(OFFSETS_TOPIC)]
    assert [[1, 2, 3]] * 3 == [sorted(shard) for shard in cluster.replicas(OFFSETS_TOPIC)]


def test_growing_again_changes_nothing() -> None:
    """A broker registers at every start."""
    cluster = Cluster(brokers=3)

    results = [cluster.controller.decide(command, NOW_MS) for command in (GrowReplicas(), registration(2))]

    assert [result.records for result in results] == [(), ()]


def test_only_who_lives_is_taken() -> None:
    """Two of three live brokers would need both; the third counts again when it has come back."""
    cluster = Cluster(brokers=0)
    cluster.live = brokers(1)
    cluster.join(1)
    cluster.join(2)
    cluster.live = brokers(1, 3)
    cluster.join(3)
    without = cluster.replicas(METADATA_TOPIC)

    cluster.live = brokers(1, 2, 3)
    cluster.do(GrowReplicas())

    assert (without, cluster.replicas(METADATA_TOPIC)) == ([[1]], [[1, 2, 3]])


def test_a_replica_that_is_down_is_no_reason_to_stay_small() -> None:
    """Five voters without one of them survive another failure, three without one survive none."""
    cluster = Cluster(brokers=4)
    cluster.live = brokers(1, 3, 4, 5)

    cluster.join(5)

    assert cluster.replicas(METADATA_TOPIC) == [[1, 2, 3, 4, 5]]


def test_whoever_registers_lives() -> None:
    """Also when its heartbeat has not been heard yet."""
    cluster = Cluster(brokers=2)
    cluster.live = brokers(1, 2)

    cluster.join(3)

    assert cluster.replicas(METADATA_TOPIC) == [[1, 2, 3]]


def test_newcomers_stand_on_other_racks() -> None:
    """A rack that fails takes one of three replicas, where there are three racks."""
    cluster = Cluster(brokers=0)
    cluster.join(1, rack="a")
    cluster.live = brokers(1)
    cluster.join(2, rack="a")
    cluster.join(3, rack="b")
    cluster.live = None

    cluster.join(4, rack="c")

    assert cluster.replicas(METADATA_TOPIC) == [[1, 3, 4]]


def test_a_replica_that_was_replaced_counts_before_it_has_registered() -> None:
    """A broker that comes back with an empty directory does not make room for another one."""
    cluster = Cluster(brokers=4)

    cluster.do(admission(voter(9).directory_id, 3))
    cluster.do(GrowReplicas())

    assert cluster.replicas(METADATA_TOPIC) == [[1, 2, 3]]
