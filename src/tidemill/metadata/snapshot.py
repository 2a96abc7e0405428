"""An image as records: what stands in the metadata log in place of everything before it.

The run is appended in one go, in chunks, and closed by a SnapshotEndRecord; only when that is committed may the log
start move to the run's first offset.  A run without its end is harmless: its records set what is already so.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from tidemill.metadata.apply import apply
from tidemill.metadata.image import EMPTY, ClusterImage
from tidemill.metadata.metadata_records import (
    BrokerRecord,
    ClusterRecord,
    ConfigRecord,
    FeatureRecord,
    MetadataFormatError,
    ProducerIdsRecord,
    Record,
    ReplicasRecord,
    ShardIdsRecord,
    ShardRecord,
    SnapshotEndRecord,
    TopicRecord,
)
from tidemill.model.broker_id import BrokerId

CHUNK_RECORDS_MAX: Final = 1_000  # about 64 KiB: one batch, far below any bound of a journal block


def snapshot_records(image: ClusterImage) -> Iterator[Record]:
    """Everything in `image`, in an order that can be applied, and the end record."""
    count = 0
    for record in _state(image):
        count += 1
        yield record
    yield SnapshotEndRecord(count)


def snapshot_chunks(image: ClusterImage, records_max: int = CHUNK_RECORDS_MAX) -> Iterator[tuple[Record, ...]]:
    """The same, in pieces that fit one batch each."""
    records = snapshot_records(image)
    while chunk := tuple(islice(records, records_max)):
        yield chunk


def restore(records: Sequence[Record], *, end_offset: int) -> ClusterImage:
    """The image that a whole snapshot run holds; it stands for `end_offset`, the first offset behind the run."""
    last = records[-1] if records else None
    if not isinstance(last, SnapshotEndRecord) or last.record_count != len(records) - 1:
        raise MetadataFormatError(f"a metadata snapshot of {len(records)} records is not whole")
    return apply(EMPTY, records, end_offset=end_offset)


def _state(image: ClusterImage) -> Iterator[Record]:
    yield ClusterRecord(image.cluster_id)
    yield FeatureRecord(image.feature_level)
    for broker in image.brokers.values():
        yield BrokerRecord(broker.broker_id, broker.directory_id, broker.endpoints, broker.rack)
    for topic in image.topics.values():
        yield TopicRecord(topic.topic_id, topic.name, topic.kind)
        for shard_id in topic.shard_ids:
            shard = image.shards[shard_id]
            yield ShardRecord(
                shard.shard_id, shard.topic_id, shard.first_partition, shard.partition_count, shard.founders
            )
            if shard.replicas != shard.founders:
                yield ReplicasRecord(shard_id, shard.replicas)
    for resource, settings in image.configs.items():
        for key, value in settings.items():
            yield ConfigRecord(resource, key, value)
    yield ProducerIdsRecord(image.next_producer_id, BrokerId(0))
    yield ShardIdsRecord(image.next_shard_id)
