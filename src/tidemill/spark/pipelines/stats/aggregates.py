"""The aggregations that Spark runs for the pipeline `stats`.

A step of a run reads its records once, and counts them in two ways in one query: by partition, time and size, and by
key.  Both counts are exact and additive, so the counts of the steps are merged by summing them.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from tidemill.spark.pipelines.stats import key_hash
from tidemill.spark.pipelines.stats.topic_range import TopicRange

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TASK_OFFSETS_MAX: Final = 1_000_000  # several tasks read a large partition
_READ: Final = "key binary, value binary, partition int, timestamp timestamp"
_US: Final = 1_000_000


def counted_step(
    spark: "SparkSession", options: Mapping[str, str], topic: str, part: TopicRange, bucket_s: int
) -> "DataFrame":
    """
    Return the counts of a step.

    Rows with `is_by_key` = 0 count the records of a partition, a time bucket (`start`, in seconds since 1970) and a
    record size; the other rows count the records of a key.  `options` are the options of the source.
    """
    filled = [partition for partition, start in part.starts.items() if start < part.ends[partition]]
    records = (
        spark.read.format("tidemill")
        .schema(_READ)
        .options(**options)
        .option("assign", json.dumps({topic: filled}))
        .option("startingOffsets", json.dumps({topic: {str(p): part.starts[p] for p in filled}}))
        .option("endingOffsets", json.dumps({topic: {str(p): part.ends[p] for p in filled}}))
        .option("maxRecordsPerPartition", str(TASK_OFFSETS_MAX))
        .load()
    )
    seconds = f.unix_seconds("timestamp")
    rows = records.select(
        "partition",
        (seconds - f.pmod(seconds, f.lit(bucket_s))).alias("start"),
        (_length("key") + _length("value")).alias("size"),
        "key",
        f.col("key").isNull().cast("long").alias("without_key"),
        f.unix_micros("timestamp").alias("time_us"),
    )
    return rows.groupingSets([["partition", "start", "size"], ["key"]], "partition", "start", "size", "key").agg(
        f.grouping("partition").alias("is_by_key"),
        f.count(f.lit(1)).alias("records"),
        f.sum(rows["size"]).alias("bytes"),
        f.sum("without_key").alias("without_key"),
        f.min("time_us").alias("first_us"),
        f.max("time_us").alias("last_us"),
    )


def by_size(counts: "DataFrame") -> "DataFrame":
    return counts.where("is_by_key = 0").drop("is_by_key", "key")


def by_key(counts: "DataFrame") -> "DataFrame":
    """Return the records and bytes of each key; records without a key are left out."""
    keyed = counts.where("is_by_key = 1 AND key IS NOT NULL")
    return keyed.groupBy("key").agg(f.sum("records").alias("records"), f.sum("bytes").alias("bytes"))


def per_minute(sizes: "DataFrame", bucket_s: int) -> "DataFrame":
    """Return the table `per_minute`, ordered by time."""
    table = _size_figures(sizes, ["partition", "start"])
    return table.select(
        "partition",
        f.timestamp_seconds("start").alias("start"),
        f.lit(bucket_s).alias("seconds"),
        "records",
        "bytes",
        "without_key",
        (f.col("bytes") / f.col("records")).alias("size_mean"),
        "size_p50",
        "size_p99",
        "size_max",
        f.timestamp_micros("first_us").alias("first_time"),
        f.timestamp_micros("last_us").alias("last_time"),
    ).orderBy("start", "partition")


def figures_of_partitions(sizes: "DataFrame") -> "DataFrame":
    """Return the figures of each partition, and those of the entire topic in a row whose `partition` is -1."""
    merged = _merged(sizes, ["partition", "size"])
    whole = merged.withColumn("partition", f.lit(-1))
    return _size_figures(merged.unionAll(whole), ["partition"])


def _size_figures(sizes: "DataFrame", by: list[str]) -> "DataFrame":
    """
    Return counts and sizes, grouped by the columns `by`.

    A percentile is the smallest size that the given percentage of the records do not exceed.  It is computed from the
    cumulative record count in order of size, because Spark's own exact percentile is slow for many small groups.
    """
    merged = _merged(sizes, [*by, "size"])
    group = Window.partitionBy(*by)
    up_to_here = group.orderBy("size").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = merged.select(
        "*",
        f.sum("records").over(up_to_here).alias("rank"),
        f.sum("records").over(group.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)).alias("all"),
    )
    return ranked.groupBy(*by).agg(
        *_sums(),
        f.min("size").alias("size_min"),
        *(
            # Use integer arithmetic, because 0.99 times a count is not exact.
            f.min(f.when(f.col("rank") * 100 >= f.col("all") * percent, f.col("size"))).alias(f"size_p{percent}")
            for percent in (50, 99)
        ),
        f.max("size").alias("size_max"),
    )


def _merged(sizes: "DataFrame", by: list[str]) -> "DataFrame":
    """Return the counts grouped by the columns `by`, because a run of several steps has several rows per group."""
    return sizes.groupBy(*by).agg(*_sums())


def _sums() -> "list[Column]":
    return [
        *(f.sum(name).alias(name) for name in ("records", "bytes", "without_key")),
        f.min("first_us").alias("first_us"),
        f.max("last_us").alias("last_us"),
    ]


def size_bins(sizes: "DataFrame", edges: Sequence[int]) -> "DataFrame":
    """Return the number of records in each bin of record sizes; bin i begins at `edges[i]`."""
    index = f.size(f.filter(f.array(*map(f.lit, edges)), lambda edge: edge <= f.col("size"))) - 1
    return sizes.groupBy(index.alias("bin")).agg(f.sum("records").alias("records"))


def usual_times(table: "DataFrame", share: float) -> "DataFrame":
    """
    Return one row: the first and last bucket start, and the starts before and after which `share` of the records lie.
    """
    start = f.unix_seconds("start")
    return table.select(start.alias("start"), "records").agg(
        f.min("start").alias("first"),
        f.max("start").alias("last"),
        f.percentile("start", [share, 1 - share], f.col("records")).alias("usual"),
    )


def timeline(table: "DataFrame", step_s: int, first_s: int, last_s: int) -> "DataFrame":
    """Return records and bytes by partition and time step, for bucket starts from `first_s` to `last_s`."""
    start = f.unix_seconds("start")
    inside = table.where((start >= first_s) & (start <= last_s))
    step = (start - f.pmod(start, f.lit(step_s))).alias("step")
    return inside.groupBy(step, "partition").agg(f.sum("records").alias("records"), f.sum("bytes").alias("bytes"))


def hottest(keys: "DataFrame", by: str, count: int) -> "DataFrame":
    """Return the `count` keys with the most records or bytes; ties are ordered by the other measure, then by key."""
    other = "bytes" if by == "records" else "records"
    return keys.orderBy(f.desc(by), f.desc(other), "key").limit(count)


def hash_buckets(keys: "DataFrame") -> "DataFrame":
    """Return records, bytes and distinct keys by hash bucket; buckets without keys are missing."""
    hashed = keys.select("key", "records", "bytes").mapInArrow(key_hash.in_buckets, key_hash.BUCKET_SCHEMA)
    return hashed.groupBy("bucket").agg(
        f.sum("records").alias("records"), f.sum("bytes").alias("bytes"), f.count(f.lit(1)).alias("keys")
    )


def _length(column: str) -> "Column":
    return f.coalesce(f.octet_length(column), f.lit(0)).cast("long")
