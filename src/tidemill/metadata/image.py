"""The cluster as the metadata log tells it, up to one offset: an immutable value on every broker.

`apply` makes the next image out of this one and copies only the tables that change.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from tidemill.metadata.metadata_records import BROKER_RESOURCE, PEER_ENDPOINT, TOPIC_RESOURCE, ConfigResource, Endpoint
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.config_resolution import NOTHING, BrokerLayers
from tidemill.model.shard import ShardId
from tidemill.model.topic import INTERNAL_TOPICS, TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    broker_id: BrokerId
    directory_id: DirectoryId
    endpoints: tuple[Endpoint, ...]
    rack: str | None

    @property
    def voter(self) -> ReplicaKey:
        return ReplicaKey(self.broker_id, self.directory_id)

    @property
    def is_registered(self) -> bool:
        """It has said where it is reached; before that it is only admitted, carries nothing, and no client sees it."""
        return bool(self.endpoints)

    @property
    def peer_endpoint(self) -> Endpoint | None:
        """Where other brokers reach it."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == PEER_ENDPOINT), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    shard_id: ShardId
    topic_id: TopicId
    first_partition: int
    partition_count: int
    initial_voters: tuple[ReplicaKey, ...]  # vote before the shard's own log says anything; they never change
    replicas: tuple[ReplicaKey, ...]  # where it shall be, the preferred leader first; who votes stands in its own log

    @property
    def partitions(self) -> range:
        return range(self.first_partition, self.first_partition + self.partition_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    topic_id: TopicId
    name: str
    kind: str
    partition_count: int
    shard_ids: tuple[ShardId, ...]  # in the order of their partitions
    first_partitions: tuple[int, ...]  # of each shard; starts with 0, and rises

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    def shard_of(self, partition: int) -> ShardId | None:
        """The shard that holds `partition`; None when the topic has no such partition."""
        if not 0 <= partition < self.partition_count:
            return None
        return self.shard_ids[bisect_right(self.first_partitions, partition) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    cluster_id: str
    feature_level: int
    topics: Mapping[str, Topic]  # by name, in the order they were created
    topics_by_id: Mapping[TopicId, Topic]
    metric_names: Mapping[str, str] = field(repr=False)  # see `metric_name`: of each topic with '.' or '_' in its name
    shards: Mapping[ShardId, Shard]
    brokers: Mapping[BrokerId, Broker]
    configs: Mapping[ConfigResource, Mapping[str, str]]  # what was set, as text; a resource without settings is absent
    next_producer_id: int
    next_shard_id: ShardId
    offset: int  # the metadata log's first offset that is not in this image

    def topic(self, name: str) -> Topic | None:
        return self.topics.get(name)

    def topic_by_id(self, topic_id: TopicId) -> Topic | None:
        return self.topics_by_id.get(topic_id)

    def shard_of(self, topic: str, partition: int) -> Shard | None:
        """The shard that holds a partition; None when there is no such partition."""
        found = self.topics.get(topic)
        shard_id = None if found is None else found.shard_of(partition)
        return None if shard_id is None else self.shards[shard_id]

    def registered(self) -> list[Broker]:
        """Who can carry replicas, by broker id."""
        return [broker for _, broker in sorted(self.brokers.items()) if broker.is_registered]

    def replication_factor(self, topic: Topic) -> int:
        return len(self.shards[topic.shard_ids[0]].replicas)

    def topic_overrides(self, name: str) -> Mapping[str, str]:
        """What was set for this topic alone."""
        return self.configs.get(ConfigResource(TOPIC_RESOURCE, name), NOTHING)

    def broker_layers(self, broker_id: BrokerId, static: Mapping[str, str]) -> BrokerLayers:
        """A broker's configuration; `static` is what it was started with, which the metadata log does not know."""
        return BrokerLayers(
            dynamic=self.configs.get(ConfigResource(BROKER_RESOURCE, str(broker_id)), NOTHING),
            dynamic_default=self.configs.get(ConfigResource(BROKER_RESOURCE, ""), NOTHING),
            static=static,
        )


def metric_name(topic: str) -> str:
    """Kafka refuses two topics that differ only in '.' and '_', because its metrics could not tell them apart."""
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
"""Before the first record."""
