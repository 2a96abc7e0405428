"""The cluster metadata up to one offset of the metadata log: an immutable value that every broker holds.

`apply` builds the next image from the previous one, and copies only the tables that change.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from tidemill.metadata.metadata_records import BROKER_RESOURCE, PEER_ENDPOINT, TOPIC_RESOURCE, ConfigResource, Endpoint
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.config_resolution import NOTHING, BrokerLayers
from tidemill.model.internal_topics import is_internal
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId
from tidemill.model.topic_kind import TopicKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    broker_id: BrokerId
    directory_id: DirectoryId
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    level: int  # the highest feature level that the broker supports, as recorded; see `feature_levels.recorded_level`
    presence: Presence = Presence.ACTIVE  # of this directory: a broker with a new one begins as ACTIVE
    drain: Drain = Drain.NONE

    @property
    def voter(self) -> ReplicaKey:
        return ReplicaKey(self.broker_id, self.directory_id)

    @property
    def is_registered(self) -> bool:
        """Whether the broker has registered its endpoints.

        A broker that is admitted but not registered carries no replicas and is not shown to clients.
        """
        return bool(self.endpoints)

    @property
    def takes_replicas(self) -> bool:
        """Whether new replicas may be placed on the broker: it is registered, not gone, and not drained."""
        return self.is_registered and self.presence is not Presence.GONE and self.drain is Drain.NONE

    @property
    def peer_endpoint(self) -> Endpoint | None:
        """The endpoint for connections from other brokers; None before registration."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == PEER_ENDPOINT), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    shard_id: ShardId
    topic_id: TopicId
    first_partition: int
    partition_count: int
    initial_voters: tuple[ReplicaKey, ...]  # the founders: the voters until the shard's log records a change
    replicas: tuple[ReplicaKey, ...]  # planned, preferred leader first; the shard's log records the actual voters
    previous: tuple[ReplicaKey, ...] = ()  # planned before, to which a cancelled move returns; empty: not known
    reason: Reason = Reason.PLACED  # why `replicas` were planned

    @property
    def partitions(self) -> range:
        return range(self.first_partition, self.first_partition + self.partition_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    topic_id: TopicId
    name: str
    kind: TopicKind
    partition_count: int
    shard_ids: tuple[ShardId, ...]  # in the order of their partitions
    first_partitions: tuple[int, ...]  # the first partition of each shard: starts at 0, strictly increasing

    @property
    def is_internal(self) -> bool:
        return is_internal(self.name)

    def shard_of(self, partition: int) -> ShardId | None:
        """Return the id of the shard that holds `partition`; None if the topic has no such partition."""
        if not 0 <= partition < self.partition_count:
            return None
        return self.shard_ids[bisect_right(self.first_partitions, partition) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    cluster_id: str
    feature_level: int
    topics: Mapping[str, Topic]  # by name, in the order in which they were created
    topics_by_id: Mapping[TopicId, Topic]
    metric_names: Mapping[str, str] = field(repr=False)  # metric name → topic name, for names with a '.' or '_'
    shards: Mapping[ShardId, Shard]
    brokers: Mapping[BrokerId, Broker]
    configs: Mapping[ConfigResource, Mapping[str, str]]  # explicit settings, as text; only resources that have any
    next_producer_id: int
    next_shard_id: ShardId
    offset: int  # exclusive: the first offset of the metadata log that is not in this image

    def topic(self, name: str) -> Topic | None:
        return self.topics.get(name)

    def topic_by_id(self, topic_id: TopicId) -> Topic | None:
        return self.topics_by_id.get(topic_id)

    def shard_of(self, topic: str, partition: int) -> Shard | None:
        """Return the shard that holds a partition; None if the partition does not exist."""
        found = self.topics.get(topic)
        shard_id = None if found is None else found.shard_of(partition)
        return None if shard_id is None else self.shards[shard_id]

    def registered(self) -> list[Broker]:
        """Return the brokers that can carry replicas, in the order of their ids."""
        return [broker for _, broker in sorted(self.brokers.items()) if broker.is_registered]

    def replication_factor(self, topic: Topic) -> int:
        return len(self.shards[topic.shard_ids[0]].replicas)

    def topic_overrides(self, name: str) -> Mapping[str, str]:
        """Return the topic's own settings, without any defaults."""
        return self.configs.get(ConfigResource(TOPIC_RESOURCE, name), NOTHING)

    def broker_layers(self, broker_id: BrokerId, static: Mapping[str, str]) -> BrokerLayers:
        """Return the layers of a broker's configuration.

        `static` holds the settings that the broker was started with, which the metadata log does not contain.
        """
        return BrokerLayers(
            dynamic=self.configs.get(ConfigResource(BROKER_RESOURCE, str(broker_id)), NOTHING),
            dynamic_default=self.configs.get(ConfigResource(BROKER_RESOURCE, ""), NOTHING),
            static=static,
        )


def metric_name(topic: str) -> str:
    """Return a topic's name as it appears in metrics, where it must be unique.

    Like Kafka, Tidemill rejects a topic whose name differs from another topic's name only in '.' and '_', because the
    two would have the same name in metrics.
    """
    return topic.replace(".", "_")


EMPTY: Final = ClusterImage(
    cluster_id="",
    feature_level=0,
    topics=MappingProxyType({}),
    topics_by_id=MappingProxyType({}),
    metric_names=MappingProxyType({}),
    shards=MappingProxyType({}),
    brokers=MappingProxyType({}),
    configs=MappingProxyType({}),
    next_producer_id=0,
    next_shard_id=ShardId(0),
    offset=0,
)
"""The image before the first record of the metadata log."""
