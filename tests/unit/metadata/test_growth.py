"""Internal topics gain replicas as the cluster grows."""

from typing import Any

import pytest

from tests.unit.metadata.controller_world import NOW_MS, Cluster, admission, registration, voter
from tidemill.metadata.broker_states import SetDrain, SetPresence
from tidemill.metadata.brokers import GrowReplicas
from tidemill.metadata.growth import metadata_learners
from tidemill.metadata.topics import CreateInternalTopic
from tidemill.model.broker_id import BrokerId
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import METADATA_SHARD
from tidemill.model.topic import METADATA_TOPIC, OFFSETS_TOPIC

TWO = BrokerId(2)


def brokers(*broker_ids: int) -> frozenset[BrokerId]:
    return frozenset(map(BrokerId, broker_ids))


def test_metadata_has_one_replica_then_three_then_five() -> None:
    """The number of metadata replicas is never even, and existing replicas keep their places at the front."""
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
def test_offsets_grow_up_to_the_configured_factor(factor: str, counts: list[int]) -> None:
    """A partition of the offsets topic has an even number of replicas only if the configured factor is even."""
    cluster = Cluster(static={"offsets.topic.replication.factor": factor})
    cluster.do(CreateInternalTopic(name=OFFSETS_TOPIC))
    seen = [len(cluster.replicas(OFFSETS_TOPIC)[0])]

    for broker_id in range(2, 6):
        cluster.join(broker_id)
        seen.append(len(cluster.replicas(OFFSETS_TOPIC)[0]))

    assert counts == seen
    assert cluster.replicas(OFFSETS_TOPIC)[0][0] == 1


def test_an_offsets_topic_created_late_has_all_replicas_at_once() -> None:
    """
    An offsets topic that is created when all brokers have joined has as many replicas as the number of brokers allows,
    and each broker leads a shard.
    """
    cluster = Cluster(brokers=3)

    cluster.do(CreateInternalTopic(name=OFFSETS_TOPIC))

    assert [2, 3, 1] == [shard[0] for shard in cluster.replicas(OFFSETS_TOPIC)]
    assert [[1, 2, 3]] * 3 == [sorted(shard) for shard in cluster.replicas(OFFSETS_TOPIC)]


def test_growing_again_changes_nothing() -> None:
    """A broker registers at every start; if nothing has changed, no records are written."""
    cluster = Cluster(brokers=3)

    results = [cluster.controller.decide(command, NOW_MS) for command in (GrowReplicas(), registration(2))]

    assert [result.records for result in results] == [(), ()]


def test_only_live_brokers_become_replicas() -> None:
    """
    If only two of three brokers are live, a majority needs both; the third becomes a replica once it is live again.
    """
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


@pytest.mark.parametrize(
    ("command", "undo"),
    [
        (SetDrain(broker_id=TWO, drain=Drain.ALL), SetDrain(broker_id=TWO, drain=Drain.NONE)),
        (SetDrain(broker_id=TWO, drain=Drain.LEADERS), SetDrain(broker_id=TWO, drain=Drain.NONE)),
        (
            SetPresence(broker_id=TWO, presence=Presence.GONE),
            SetPresence(broker_id=TWO, presence=Presence.ACTIVE),
        ),
    ],
)
def test_gone_and_drained_brokers_do_not_become_replicas(command: Any, undo: Any) -> None:
    """The planner would move a new replica away again, and a broker could be drained for ever."""
    cluster = Cluster(brokers=2)
    cluster.do(command)
    cluster.join(3)
    without = cluster.replicas(METADATA_TOPIC)

    cluster.do(undo)
    cluster.do(GrowReplicas())

    assert (without, cluster.replicas(METADATA_TOPIC)) == ([[1]], [[1, 2, 3]])


def test_growth_has_a_way_back_and_keeps_the_reason() -> None:
    """Growth is a goal like others, and its reason that of the goal before, whose replicas all stay."""
    cluster = Cluster(brokers=1)

    cluster.join(2)
    cluster.join(3)

    shard = cluster.image.shards[METADATA_SHARD]
    assert (shard.replicas, shard.previous) == ((voter(1), voter(2), voter(3)), (voter(1),))
    assert shard.reason is Reason.PLACED


def test_growth_of_an_older_cluster_is_readable() -> None:
    """Below feature level 2, brokers may run that read no ReplicasRecord with former replicas."""
    cluster = Cluster(brokers=3, level=1)

    shard = cluster.image.shards[METADATA_SHARD]

    assert (len(shard.replicas), shard.previous) == (3, ())


def test_a_replica_that_is_down_does_not_prevent_growth() -> None:
    """
    The metadata shard gets its fourth and fifth replica even while another one is down: five voters with one down
    tolerate another failure, and three with one down tolerate none.
    """
    cluster = Cluster(brokers=4)
    cluster.live = brokers(1, 3, 4, 5)

    cluster.join(5)

    assert cluster.replicas(METADATA_TOPIC) == [[1, 2, 3, 4, 5]]


def test_a_registering_broker_counts_as_live() -> None:
    """A broker that registers counts as live even before its first heartbeat."""
    cluster = Cluster(brokers=2)
    cluster.live = brokers(1, 2)

    cluster.join(3)

    assert cluster.replicas(METADATA_TOPIC) == [[1, 2, 3]]


def test_new_replicas_are_placed_on_other_racks() -> None:
    """
    New replicas are placed on racks that have no replica yet: with three racks, losing one rack then loses one of three
    replicas.
    """
    cluster = Cluster(brokers=0)
    cluster.join(1, rack="a")
    cluster.live = brokers(1)
    cluster.join(2, rack="a")
    cluster.join(3, rack="b")
    cluster.live = None

    cluster.join(4, rack="c")

    assert cluster.replicas(METADATA_TOPIC) == [[1, 3, 4]]


def test_a_replaced_replica_counts_before_it_registers() -> None:
    """A broker that returns with an empty directory keeps its place; no other broker takes it."""
    cluster = Cluster(brokers=4)

    cluster.do(admission(voter(9).directory_id, 3))
    cluster.do(GrowReplicas())

    assert cluster.replicas(METADATA_TOPIC) == [[1, 2, 3]]
