"""Statistics of invented topics, for the tests of charts and page."""

from dataclasses import replace

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
from tidemill.spark.pipelines.stats.key_hash import BUCKET_COUNT, bucket_of

FIRST_S = 1_357_034_400  # 1 Jan 2013 10:00:00 UTC
STEP_S = 60


def topic(
    records: list[list[int]],
    keys: dict[bytes, int] | None = None,
    *,
    name: str = "flights",
    without_key: int = 0,
) -> TopicFigures:
    """
    Return the statistics of a topic whose records are 100 bytes each.

    `records` contains, for each partition, the number of records in each minute, and `keys` the number of records of
    each key.
    """
    by_partition = [sum(minutes) for minutes in records]
    total = _sizes(sum(by_partition), len(records[0]))
    ranked = sorted((keys or {}).items(), key=lambda pair: -pair[1])
    buckets = [HashBucket(bucket=number) for number in range(BUCKET_COUNT)]
    for key, count in ranked:
        old = buckets[bucket_of(key)]
        buckets[old.bucket] = replace(
            old, records=old.records + count, bytes=old.bytes + 100 * count, keys=old.keys + 1
        )
    return TopicFigures(
        topic=name,
        total=replace(total, without_key=without_key),
        partitions=tuple(
            PartitionFigures(partition=number, start_offset=0, end_offset=count, sizes=_sizes(count, len(records[0])))
            for number, count in enumerate(by_partition)
        ),
        timeline=Timeline(
            step_s=STEP_S,
            steps=tuple(
                TimeStep(start_s=FIRST_S + STEP_S * minute, partition=number, records=count, bytes=100 * count)
                for number, minutes in enumerate(records)
                for minute, count in enumerate(minutes)
                if count
            ),
        ),
        size_bins=(SizeBin(from_bytes=100, to_bytes=101, records=total.records),),
        key_count=len(ranked),
        hot_keys=tuple(
            HotKey(key=key, records=count, bytes=100 * count, rank_by_records=rank, rank_by_bytes=rank)
            for rank, (key, count) in enumerate(ranked, 1)
        ),
        hash_buckets=tuple(buckets),
    )


def _sizes(count: int, minutes: int) -> SizeFigures:
    if not count:
        return SizeFigures()
    return SizeFigures(
        records=count,
        bytes=100 * count,
        size_min=100,
        size_max=100,
        size_p50=100,
        size_p99=100,
        first_s=FIRST_S,
        last_s=FIRST_S + STEP_S * minutes - 1,
    )
