"""The key hash by which Java's producer chooses partitions, in 256 buckets, and how evenly it fills partitions.

Java's producer puts a record into the partition `hash % partition_count`, where the hash is murmur2 of the key without
its sign bit.  A bucket is `hash % 256`, so the buckets of one partition of a topic with 2, 4, … 256 partitions are
exactly those whose number modulo the partition count is the partition's number.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tidemill.batches.native import scan

if TYPE_CHECKING:
    import pyarrow as pa

BUCKET_COUNT: Final = 256
BUCKET_SCHEMA: Final = "bucket int, records long, bytes long"


class Split(NamedTuple):
    """How evenly the records with a key would fill a topic with this number of partitions."""

    partition_count: int
    records_max: int  # number of records in the largest partition
    imbalance: float  # the records of the largest partition, divided by the mean of all partitions


def bucket_of(key: bytes) -> int:
    return scan.murmur2(key) % BUCKET_COUNT


def in_buckets(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """
    Replace the column `key` by the column `bucket`; keep `records` and `bytes`.

    This is a function for `DataFrame.mapInArrow`: it runs in executors.  No key may be null.
    """
    import pyarrow as pa

    for batch in batches:
        buckets = pa.array([bucket_of(key) for key in batch.column("key").to_pylist()], pa.int32())
        yield pa.record_batch(
            [buckets, batch.column("records"), batch.column("bytes")], names=["bucket", "records", "bytes"]
        )


def splits(records_by_bucket: Sequence[int]) -> list[Split]:
    """Return the imbalance for 2, 4, 8, … 256 partitions; an empty list if no record has a key."""
    total = sum(records_by_bucket)
    if total == 0:
        return []
    found = []
    partition_count = 2
    while partition_count <= BUCKET_COUNT:
        fullest = max(sum(records_by_bucket[partition::partition_count]) for partition in range(partition_count))
        found.append(Split(partition_count, fullest, fullest * partition_count / total))
        partition_count *= 2
    return found
