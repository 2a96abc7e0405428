"""Applies metadata records to an image.  No other code turns a record into a change of state."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Generic, TypeVar, assert_never

from tidemill.metadata.image import Broker, ClusterImage, Shard, Topic, metric_name
from tidemill.metadata.metadata_records import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    BrokerRecord,
    BrokerStateRecord,
    ClusterRecord,
    ConfigRecord,
    ConfigResource,
    FeatureRecord,
    ProducerIdsRecord,
    Record,
    RemoveBrokerRecord,
    RemoveTopicRecord,
    ReplicasRecord,
    ShardIdsRecord,
    ShardRecord,
    SnapshotEndRecord,
    TopicRecord,
)
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.shard import ShardId

K = TypeVar("K")
V = TypeVar("V")


def apply(image: ClusterImage, records: Iterable[Record], *, end_offset: int | None = None) -> ClusterImage:
    """Return the image after `records`.

    The new image's offset is `end_offset` or, if that is None, the old image's offset plus the number of records.
    Whether this version supports the cluster's feature level is checked before (`feature_levels.checked`).
    """
    draft = _Draft(image)
    count = 0
    for record in records:
        draft.apply(record)
        count += 1
    return draft.image(image.offset + count if end_offset is None else end_offset)


class _Table(Generic[K, V]):
    """A copy-on-write view of one mapping of the old image: the mapping is copied before the first change."""

    __slots__ = ("_copied", "current")

    def __init__(self, old: Mapping[K, V]) -> None:
        self.current = old
        self._copied: dict[K, V] | None = None

    def mutable(self) -> dict[K, V]:
        if self._copied is None:
            self._copied = dict(self.current)
            self.current = self._copied
        return self._copied


class _Draft:
    def __init__(self, image: ClusterImage) -> None:
        self._old = image
        self._cluster_id = image.cluster_id
        self._feature_level = image.feature_level
        self._topics = _Table(image.topics)
        self._topics_by_id = _Table(image.topics_by_id)
        self._metric_names = _Table(image.metric_names)
        self._shards = _Table(image.shards)
        self._brokers = _Table(image.brokers)
        self._configs = _Table(image.configs)
        self._next_producer_id = image.next_producer_id
        self._next_shard_id = image.next_shard_id

    def apply(self, record: Record) -> None:
        match record:
            case ClusterRecord():
                assert self._cluster_id in ("", record.cluster_id), "the cluster id never changes"
                self._cluster_id = record.cluster_id
            case FeatureRecord():
                self._feature_level = record.level
            case BrokerRecord():
                self._apply_broker(record)
            case TopicRecord():
                self._apply_topic(record)
            case ShardRecord():
                self._apply_shard(record)
            case ReplicasRecord():
                shard = self._shards.current[record.shard_id]
                self._shards.mutable()[record.shard_id] = replace(
                    shard, replicas=record.voters, previous=record.previous, reason=record.reason
                )
            case RemoveTopicRecord():
                self._apply_remove_topic(record)
            case ConfigRecord():
                self._apply_config(record)
            case ProducerIdsRecord():
                assert record.next_producer_id >= self._next_producer_id, "producer ids are never allocated twice"
                self._next_producer_id = record.next_producer_id
            case ShardIdsRecord():
                self._next_shard_id = max(self._next_shard_id, record.next_shard_id)
            case SnapshotEndRecord():
                pass  # The record contains no state: it only allows the log to start at the snapshot's first record.
            case BrokerStateRecord():
                broker = self._brokers.current[record.broker_id]
                self._brokers.mutable()[record.broker_id] = replace(
                    broker, presence=record.presence, drain=record.drain
                )
            case RemoveBrokerRecord():
                self._apply_remove_broker(record)
            case _:
                assert_never(record)

    def _apply_broker(self, record: BrokerRecord) -> None:
        known = self._brokers.current.get(record.broker_id)
        is_same_directory = known is not None and known.directory_id == record.directory_id
        self._brokers.mutable()[record.broker_id] = Broker(
            broker_id=record.broker_id,
            directory_id=record.directory_id,
            endpoints=record.endpoints,
            rack=record.rack,
            level=record.level,
            presence=known.presence if known is not None and is_same_directory else Presence.ACTIVE,
            drain=Drain.NONE if known is None else known.drain,
        )

    def _apply_remove_broker(self, record: RemoveBrokerRecord) -> None:
        self._brokers.mutable().pop(record.broker_id, None)
        self._remove_configs(ConfigResource(BROKER_RESOURCE, str(record.broker_id)))

    def _apply_topic(self, record: TopicRecord) -> None:
        if record.topic_id in self._topics_by_id.current:
            return  # A snapshot within the log repeats the records of existing topics.
        assert record.name not in self._topics.current, "topic names are unique"
        self._put_topic(
            Topic(
                topic_id=record.topic_id,
                name=record.name,
                kind=record.kind,
                partition_count=0,
                shard_ids=(),
                first_partitions=(),
            )
        )
        if "." in record.name or "_" in record.name:
            self._metric_names.mutable()[metric_name(record.name)] = record.name

    def _apply_shard(self, record: ShardRecord) -> None:
        topic = self._topics_by_id.current[record.topic_id]
        known = self._shards.current.get(record.shard_id)
        if known is not None:
            # A snapshot within the log repeats the records of existing shards.  An existing shard is kept as it is,
            # because its replicas may have changed since it was created.
            partitions = range(record.first_partition, record.first_partition + record.partition_count)
            assert (known.partitions, known.initial_voters) == (partitions, record.initial_voters), (
                "a shard is created once"
            )
            return
        assert record.first_partition == topic.partition_count, "shard records are in the order of their partitions"
        self._shards.mutable()[record.shard_id] = Shard(
            shard_id=record.shard_id,
            topic_id=record.topic_id,
            first_partition=record.first_partition,
            partition_count=record.partition_count,
            initial_voters=record.initial_voters,
            replicas=record.initial_voters,
        )
        self._next_shard_id = max(self._next_shard_id, ShardId(record.shard_id + 1))
        self._put_topic(
            replace(
                topic,
                partition_count=topic.partition_count + record.partition_count,
                shard_ids=(*topic.shard_ids, record.shard_id),
                first_partitions=(*topic.first_partitions, record.first_partition),
            )
        )

    def _apply_remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._topics_by_id.mutable().pop(record.topic_id)
        del self._topics.mutable()[topic.name]
        shards = self._shards.mutable()
        for shard_id in topic.shard_ids:
            del shards[shard_id]
        if self._metric_names.current.get(metric_name(topic.name)) == topic.name:
            del self._metric_names.mutable()[metric_name(topic.name)]
        self._remove_configs(ConfigResource(TOPIC_RESOURCE, topic.name))

    def _apply_config(self, record: ConfigRecord) -> None:
        settings = dict(self._configs.current.get(record.resource, {}))
        if record.value is None:
            settings.pop(record.key, None)
        else:
            settings[record.key] = record.value
        if settings:
            self._configs.mutable()[record.resource] = settings
        else:
            self._remove_configs(record.resource)

    def _remove_configs(self, resource: ConfigResource) -> None:
        if resource in self._configs.current:
            del self._configs.mutable()[resource]

    def _put_topic(self, topic: Topic) -> None:
        self._topics.mutable()[topic.name] = topic
        self._topics_by_id.mutable()[topic.topic_id] = topic

    def image(self, offset: int) -> ClusterImage:
        return ClusterImage(
            cluster_id=self._cluster_id,
            feature_level=self._feature_level,
            topics=self._topics.current,
            topics_by_id=self._topics_by_id.current,
            metric_names=self._metric_names.current,
            shards=self._shards.current,
            brokers=self._brokers.current,
            configs=self._configs.current,
            next_producer_id=self._next_producer_id,
            next_shard_id=self._next_shard_id,
            offset=offset,
        )
