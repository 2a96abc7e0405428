"""Plans the replicas of a topic in a cluster of a unit test."""

from typing import Any

from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.metadata.reassignments import PlanReplicas
from tidemill.model.broker_id import BrokerId


def plan(world: ClusterWorld, topic: str, *brokers: int) -> None:
    """Plan the replicas of the topic's only shard on `brokers`."""
    answers: list[Any] = []
    shard_id = world.controller.broker.image.topics[topic].shard_ids[0]
    command = PlanReplicas(shard_id=shard_id, brokers=tuple(map(BrokerId, brokers)))
    world.controller.broker.controller.submit(command).then(answers.append)
    world.until(lambda: bool(answers), "it is planned")
    assert answers[0].problem is None
