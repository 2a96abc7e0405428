"""A cluster for unit tests whose controller runs the planner with short delays, and commands for it."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.unit.broker.cluster_world import ClusterWorld, Node
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.config_resolution import NOTHING
from tidemill.peer.cluster_operation import Operation, Request, Response

STATIC = {
    "tidemill.broker.silent.ms": "2000",
    "tidemill.replica.replacement.delay.ms": "5000",
    "tidemill.broker.return.ms": "1000",
    "tidemill.load.report.ms": "1000",
}
FIGURES_MS = 3_000  # until a new controller has the figures of all shards, and has made a plan


class HealingWorld(ClusterWorld):
    def __init__(self, brokers: int = 4, static: Mapping[str, str] = NOTHING, **more: Any) -> None:
        super().__init__(brokers, {**STATIC, **static}, **more)

    def lose(self, number: int) -> None:
        """A broker is gone: it neither runs nor is it reached."""
        self.cut_off(number)
        self.stopped.add(number)

    def find(self, number: int) -> None:
        """A lost broker is back, with everything that it had."""
        self.stopped.discard(number)
        self.heal()

    def command(self, operation: Operation, broker_id: int = -1, *, by: int = 0, **more: Any) -> Response:
        """Send a command to a broker, by default to the controller, and return the response."""
        node = self[by] if by else self.controller
        answered: list[Response] = []
        request = Request(operation=operation, broker_id=broker_id, **more)
        api, version = node.client.send(request)

        def is_answered() -> bool:
            response = node.client.answer(api, version)
            answered.extend([] if response is None else [response])
            return bool(answered)

        self.until(is_answered, "the command is answered")
        return answered[0]

    def replicas(self, topic: str) -> list[int]:
        """Return the planned replicas of the topic's first shard, the preferred leader first."""
        image = self.running.broker.image
        return [replica.broker_id for replica in image.shards[image.topics[topic].shard_ids[0]].replicas]

    def voters(self, topic: str) -> set[int]:
        """Return the voters of the topic's first shard, as its leader knows them."""
        leader = next(it for it in self._running if self._serves(it, topic))
        return {voter.broker_id for voter in leader.shard(topic).replica.voters}

    def presence(self, number: int) -> Presence:
        return self.running.broker.image.brokers[self[number].broker.broker_id].presence

    def drain(self, number: int) -> Drain:
        return self.running.broker.image.brokers[self[number].broker.broker_id].drain

    @property
    def running(self) -> Node:
        return self._running[0]

    @property
    def controller(self) -> Node:
        def leading() -> Sequence[Node]:
            return [node for node in self._running if node.broker.controller.leads]

        self.until(lambda: bool(leading()), "a controller")
        return leading()[-1]

    def lines(self, *words: str) -> list[str]:
        """Return the lines of all event logs that contain all these words."""
        return [line for node in self.nodes for line in node.events if all(word in line for word in words)]

    def _serves(self, node: Node, topic: str) -> bool:
        partition = node.broker.shard_table.partition(topic, 0)
        return partition is not None and partition.shard.is_serving
