"""Encodes an image as records that replace all earlier records of the metadata log.

The leader appends the snapshot in chunks, with no other records in between.  The last record is a SnapshotEndRecord;
once it is committed, the log start may advance to the snapshot's first offset.  A snapshot without an end record is
harmless: its records only repeat the current state.
"""

from collections.abc import Iterator
from typing import Final

from tidemill.metadata.image import ClusterImage
from tidemill.metadata.metadata_records import (
    BrokerRecord,
    BrokerStateRecord,
    ClusterRecord,
    ConfigRecord,
    FeatureRecord,
    ProducerIdsRecord,
    Record,
    ReplicasRecord,
    ShardIdsRecord,
    ShardRecord,
    SnapshotEndRecord,
    TopicRecord,
    encode,
)
from tidemill.model.broker_id import BrokerId
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason

CHUNK_RECORDS_MAX: Final = 1_000  # usually about 64 KiB, one batch
CHUNK_BYTES_MAX: Final = 512 << 10  # the record that reaches the limit ends the chunk; a record may take tens of KiB


def snapshot_records(image: ClusterImage) -> Iterator[Record]:
    """Yield the records of the entire image, in an order in which they can be applied, and then the end record."""
    count = 0
    for record in _state(image):
        count += 1
        yield record
    yield SnapshotEndRecord(count)


def snapshot_chunks(image: ClusterImage, records_max: int = CHUNK_RECORDS_MAX) -> Iterator[tuple[Record, ...]]:
    """Yield the records of `snapshot_records` in chunks, each of which fits in one batch."""
    chunk: list[Record] = []
    byte_count = 0
    for record in snapshot_records(image):
        chunk.append(record)
        byte_count += len(encode(record))
        if len(chunk) == records_max or byte_count >= CHUNK_BYTES_MAX:
            yield tuple(chunk)
            chunk, byte_count = [], 0
    if chunk:
        yield tuple(chunk)


def _state(image: ClusterImage) -> Iterator[Record]:
    yield ClusterRecord(image.cluster_id)
    yield FeatureRecord(image.feature_level)
    for broker in image.brokers.values():
        yield BrokerRecord(broker.broker_id, broker.directory_id, broker.endpoints, broker.rack, broker.level)
        if broker.presence is not Presence.ACTIVE or broker.drain is not Drain.NONE:
            yield BrokerStateRecord(broker.broker_id, broker.presence, broker.drain)
    for topic in image.topics.values():
        yield TopicRecord(topic.topic_id, topic.name, topic.kind)
        for shard_id in topic.shard_ids:
            shard = image.shards[shard_id]
            yield ShardRecord(
                shard.shard_id, shard.topic_id, shard.first_partition, shard.partition_count, shard.initial_voters
            )
            if shard.replicas != shard.initial_voters or shard.previous or shard.reason is not Reason.PLACED:
                yield ReplicasRecord(shard_id, shard.replicas, shard.previous, shard.reason)
    for resource, settings in image.configs.items():
        for key, value in settings.items():
            yield ConfigRecord(resource, key, value)
    yield ProducerIdsRecord(image.next_producer_id, BrokerId(0))
    yield ShardIdsRecord(image.next_shard_id)
