"""Plans the replicas of a topic in a cluster of a unit test."""

from typing import Any

from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.metadata.reassignments import Move, PlanMoves
from tidemill.model.broker_id import BrokerId
from tidemill.model.move_reason import Reason


def plan(world: ClusterWorld, topic: str, *brokers: int) -> None:
    """Plan the replicas of the topic's only shard on `brokers`."""
    answers: list[Any] = []
    shard_id = world.controller.broker.image.topics[topic].shard_ids[0]
    move = Move(shard_id=shard_id, brokers=tuple(map(BrokerId, brokers)), reason=Reason.USER)
    world.controller.broker.controller.submit(PlanMoves(moves=(move,))).then(answers.append)
    world.until(lambda: bool(answers), "it is planned")
    assert answers[0].problems == (None,)
