"""Merges the counts of all steps into the tables and the figures of the topic."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType
from pyspark.storagelevel import StorageLevel

from tidemill.batches.native import scan
from tidemill.spark.pipelines.stats import aggregates, key_hash, size_bins
from tidemill.spark.pipelines.stats.figures import (
    HashBucket,
    HotKey,
    PartitionFigures,
    SizeBin,
    SizeFigures,
    Timeline,
    TimeStep,
    TopicFigures,
)
from tidemill.spark.pipelines.stats.output import HOT_KEYS, KEY_HASH, PER_MINUTE, Output
from tidemill.spark.pipelines.stats.steps_of_time import step_length
from tidemill.spark.pipelines.stats.topic_range import TopicRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WHOLE: Final = -1  # the partition number in the row for all partitions together
_STRAY_SHARE: Final = 0.001  # share of the earliest and of the latest records that may be left out of the chart
_STRETCH_MAX: Final = 10  # outlying records are left out of a chart if they make its time axis this many times longer

_HOT_KEY: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("records", LongType()),
        StructField("bytes", LongType()),
        StructField("hash", IntegerType()),
        StructField("bucket", IntegerType()),
        StructField("rank_by_records", IntegerType()),
        StructField("rank_by_bytes", IntegerType()),
    ]
)
_BUCKET: Final = StructType(
    [
        StructField("bucket", IntegerType()),
        StructField("records", LongType()),
        StructField("bytes", LongType()),
        StructField("keys", LongType()),
    ]
)


def gather(
    spark: "SparkSession", steps: Sequence[str], output: Output, topic: str, read: TopicRange, bucket_s: int, top: int
) -> TopicFigures:
    """
    Write the result tables, and return the figures of the topic.

    `steps` are the directories with the counts of the steps; at least one step has records.
    """
    counts = spark.read.parquet(*steps)
    sizes = aggregates.by_size(counts)
    output.write(aggregates.per_minute(sizes, bucket_s), PER_MINUTE)
    total, partitions = _partitions(sizes, read)
    keys = aggregates.by_key(counts).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        hot_keys = _hot_keys(keys, top)
        buckets = _hash_buckets(keys)
    finally:
        keys.unpersist()
    write_key_tables(spark, output, hot_keys, buckets)
    return TopicFigures(
        topic=topic,
        total=total,
        partitions=partitions,
        timeline=_timeline(spark.read.parquet(output.path(PER_MINUTE)), bucket_s),
        size_bins=_size_bins(sizes, total),
        key_count=sum(bucket.keys for bucket in buckets),
        hot_keys=hot_keys,
        hash_buckets=buckets,
    )


def write_key_tables(
    spark: "SparkSession", output: Output, hot_keys: Sequence[HotKey], buckets: Sequence[HashBucket]
) -> None:
    rows = [
        (
            key.key,
            key.records,
            key.bytes,
            scan.murmur2(key.key),
            key_hash.bucket_of(key.key),
            key.rank_by_records,
            key.rank_by_bytes,
        )
        for key in hot_keys
    ]
    output.write(spark.createDataFrame(rows, _HOT_KEY).coalesce(1), HOT_KEYS)
    bucket_rows = [(one.bucket, one.records, one.bytes, one.keys) for one in buckets]
    output.write(spark.createDataFrame(bucket_rows, _BUCKET).coalesce(1), KEY_HASH)


def _partitions(sizes: "DataFrame", read: TopicRange) -> tuple[SizeFigures, tuple[PartitionFigures, ...]]:
    found = {row.partition: _size_figures(row) for row in aggregates.figures_of_partitions(sizes).collect()}
    partitions = tuple(
        PartitionFigures(
            partition=partition,
            start_offset=start,
            end_offset=read.ends[partition],
            sizes=found.get(partition, SizeFigures()),
        )
        for partition, start in sorted(read.starts.items())
    )
    return found[_WHOLE], partitions


def _size_figures(row: Any) -> SizeFigures:
    return SizeFigures(
        records=row.records,
        bytes=row.bytes,
        without_key=row.without_key,
        size_min=row.size_min,
        size_max=row.size_max,
        size_p50=row.size_p50,
        size_p99=row.size_p99,
        first_s=row.first_us / 1e6,
        last_s=row.last_us / 1e6,
    )


def _hot_keys(keys: "DataFrame", top: int) -> tuple[HotKey, ...]:
    """Return the top keys by records, followed by the keys that are only among the top keys by bytes."""
    ranks: dict[str, dict[bytes, int]] = {}
    rows = {}
    for by in ("records", "bytes"):
        ranked = aggregates.hottest(keys, by, top).collect()
        ranks[by] = {bytes(row.key): rank for rank, row in enumerate(ranked, 1)}
        rows.update({bytes(row.key): row for row in ranked})
    return tuple(
        HotKey(
            key=key,
            records=row.records,
            bytes=row.bytes,
            rank_by_records=ranks["records"].get(key),
            rank_by_bytes=ranks["bytes"].get(key),
        )
        for key, row in rows.items()
    )


def _hash_buckets(keys: "DataFrame") -> tuple[HashBucket, ...]:
    found = {row.bucket: row for row in aggregates.hash_buckets(keys).collect()}
    return tuple(
        HashBucket(bucket=number, records=row.records, bytes=row.bytes, keys=row["keys"])
        if (row := found.get(number)) is not None
        else HashBucket(bucket=number)
        for number in range(key_hash.BUCKET_COUNT)
    )


def _size_bins(sizes: "DataFrame", total: SizeFigures) -> tuple[SizeBin, ...]:
    edges = size_bins.edges(total.size_min, total.size_max)
    found = {row.bin: row.records for row in aggregates.size_bins(sizes, edges).collect()}
    return tuple(
        SizeBin(from_bytes=edges[index], to_bytes=edges[index + 1], records=found.get(index, 0))
        for index in range(len(edges) - 1)
    )


def _timeline(table: "DataFrame", bucket_s: int) -> Timeline:
    """Return the time steps to draw: all, unless a few records with outlying timestamps would stretch the chart."""
    (times,) = aggregates.usual_times(table, _STRAY_SHARE).collect()
    first, last = times.first, times.last
    usual_first, usual_last = int(times.usual[0]), int(times.usual[1])
    span = max(usual_last - usual_first, bucket_s)
    if last - first > _STRETCH_MAX * span:
        # Most records outside the usual time range are close to it, so they are drawn as well.
        first, last = max(first, usual_first - span), min(last, usual_last + span)
    step_s = step_length(first, last, bucket_s)
    rows = aggregates.timeline(table, step_s, first, last).collect()
    steps = tuple(
        TimeStep(start_s=row.step, partition=row.partition, records=row.records, bytes=row.bytes)
        for row in sorted(rows, key=lambda it: (it.step, it.partition))
    )
    records = table.agg({"records": "sum"}).collect()[0][0]
    return Timeline(step_s=step_s, steps=steps, records_outside=records - sum(step.records for step in steps))
