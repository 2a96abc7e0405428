"""A controller for tests: send it commands, and inspect the image that results."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tidemill.metadata.admission import AdmitBroker
from tidemill.metadata.apply import apply
from tidemill.metadata.brokers import BootstrapCluster, RegisterBroker
from tidemill.metadata.configs import Change, IncrementalAlterConfigs
from tidemill.metadata.controller import Controller
from tidemill.metadata.feature_levels import NEWEST
from tidemill.metadata.image import EMPTY, ClusterImage
from tidemill.metadata.metadata_records import ConfigResource, Endpoint
from tidemill.metadata.snapshot import snapshot_records
from tidemill.metadata.topics import CreateTopics, NewTopic
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.config_resolution import NOTHING

NOW_MS = 1_700_000_000_000
ENDPOINTS = (Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),)


class CountingEntropy:
    """Deterministic entropy: every draw returns the next number."""

    def __init__(self) -> None:
        self._drawn = 0

    def random_bytes(self, count: int) -> bytes:
        self._drawn += 1
        return self._drawn.to_bytes(count, "big")


class Cluster:
    """A controller together with the records it has decided so far."""

    def __init__(self, brokers: int = 1, static: Mapping[str, str] = NOTHING, *, level: int = NEWEST) -> None:
        """Bootstrap a cluster at the feature level `level`, which is the newest one of all its brokers."""
        self.level = level
        self.controller = Controller(EMPTY, broker_id=BrokerId(1), static=static, entropy=CountingEntropy())
        self.live: frozenset[BrokerId] | None = None
        self.do(BootstrapCluster(cluster_id="c", voter=voter(1), level=level))
        for broker_id in range(1, brokers + 1):
            self.join(broker_id)

    def join(self, broker_id: int, rack: str | None = None) -> None:
        self.do(admission(voter(broker_id).directory_id, broker_id, level=self.level))
        registered = self.do(replace(registration(broker_id, level=self.level), rack=rack))
        assert registered.problem is None

    def replicas(self, topic: str) -> list[list[int]]:
        """Return the broker ids of the replicas of each shard of a topic."""
        shards = [self.image.shards[shard_id] for shard_id in self.image.topics[topic].shard_ids]
        return [[voter.broker_id for voter in shard.replicas] for shard in shards]

    def do(self, command: Any) -> Any:
        result = self.controller.decide(command, NOW_MS, live=self.live)
        self.warnings = result.warnings
        self.controller.replay(result.records)
        return result.response

    def create(self, name: str, **wanted: Any) -> Any:
        (answer,) = self.do(CreateTopics(topics=(NewTopic(name=name, **wanted),)))
        return answer

    def set(self, resource: ConfigResource, *changes: Change) -> Any:
        (answer,) = self.do(IncrementalAlterConfigs(resources=((resource, changes),)))
        return answer

    def restored(self) -> ClusterImage:
        """Return the image of a broker that reads a snapshot of this controller's state, with this one's offset."""
        return replace(apply(EMPTY, snapshot_records(self.image)), offset=self.image.offset)

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    def ranges(self, topic: str) -> list[tuple[int, range]]:
        return [(shard_id, self.image.shards[shard_id].partitions) for shard_id in self.image.topics[topic].shard_ids]


def voter(broker_id: int) -> ReplicaKey:
    return ReplicaKey(BrokerId(broker_id), DirectoryId(bytes([broker_id]) * 16))


def registration(broker_id: int, *, level: int = NEWEST) -> RegisterBroker:
    return RegisterBroker(
        broker_id=BrokerId(broker_id),
        directory_id=voter(broker_id).directory_id,
        endpoints=ENDPOINTS,
        level=level,
    )


def admission(
    directory_id: DirectoryId,
    broker_id: int | None,
    live: Iterable[int] = (),
    *,
    level: int = NEWEST,
    was_admitted: bool = False,
) -> AdmitBroker:
    return AdmitBroker(
        directory_id=directory_id,
        broker_id=None if broker_id is None else BrokerId(broker_id),
        live=frozenset(map(BrokerId, live)),
        level=level,
        was_admitted=was_admitted,
    )
