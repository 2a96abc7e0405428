"""Copies the live topic after the backfill, starting at its end offsets before the backfill wrote its first record."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidemill.columnar.offset_bound import EARLIEST
from tidemill.spark.pipelines.backfill.options import BackfillOptions
from tidemill.spark.pipelines.backfill.rate_limit import RateLimit
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.one_topic import OneTopic
from tidemill.spark.pipelines.frame.small_batches import small_batches

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_TRIGGER_S: Final = 5  # with a rate limit, a micro-batch contains about what may be written in this time
_POLL_S: Final = 0.5
_SLICE_S: Final = 0.2


def copy(job: Job[BackfillOptions], noted: Mapping[int, int]) -> int:
    """
    Copy the records of the live topic (option `then`) to the target, and return how many this run has copied.

    `noted` contains the end offset of each partition of the topic before the first record was written.  The first run
    begins at these offsets, and a later run at Spark's checkpoint.  The copy ends at the current end of the topic, or,
    if the job is continuous, when a stop is requested.

    The copy is at-least-once: after an interruption, the last micro-batch is written again.  A record keeps its key,
    value, headers and timestamp, and its partition if the pipeline has the option `partition`; without it, the key
    chooses the partition, as it does for the records of the files.
    """
    job.progress.begin(f"copying {job.options.then}", None)
    with OneTopic(str(job.options.then), job.kafka) as live:
        partitions = live.partition_count()
    with small_batches(job.spark):
        query = _written(job, _read(job, noted, partitions)).start()
    try:
        return _followed(job, query)
    finally:
        query.stop()


def _read(job: Job[BackfillOptions], noted: Mapping[int, int], partitions: int) -> "DataFrame":
    # A partition that was added since the offsets were noted contains only newer records, so it is read from its
    # earliest offset.
    starts = {str(number): noted.get(number, EARLIEST) for number in range(partitions)}
    reader = (
        job.spark.readStream.format("tidemill")
        .options(**job.kafka)
        .option("subscribe", str(job.options.then))
        .option("startingOffsets", json.dumps({job.options.then: starts}))
        .option("includeHeaders", "true")
    )
    rate, is_in_bytes = job.options.rate
    if rate is not None:
        limit = "maxBytesPerTrigger" if is_in_bytes else "maxOffsetsPerTrigger"
        reader = reader.option(limit, str(max(int(rate * _TRIGGER_S), 1)))
    partition = [] if job.options.partition is None else ["partition"]
    rows = reader.load().select("key", "value", "headers", "timestamp", *partition)
    if rate is None:
        return rows
    # A single task enforces the full rate, whichever partitions have records.
    return rows.coalesce(1).mapInArrow(PacedRows(rate=rate, is_in_bytes=is_in_bytes), rows.schema)


def _written(job: Job[BackfillOptions], rows: "DataFrame") -> "DataStreamWriter":
    writer = (
        rows.writeStream.format("tidemill")
        .options(**job.kafka)
        .option("topic", job.options.topic)
        .option("checkpointLocation", job.state.checkpoint())
    )
    return writer if job.is_continuous else writer.trigger(availableNow=True)


def _followed(job: Job[BackfillOptions], query: "StreamingQuery") -> int:
    """Wait until the query ends or a stop is requested, and return the number of records in its micro-batches."""
    copied, seen = 0, -1
    while True:
        is_over = not query.isActive
        for progress in query.recentProgress:
            if progress["batchId"] > seen and progress["numInputRows"]:
                seen = progress["batchId"]
                copied += progress["numInputRows"]
                job.progress.advance(progress["numInputRows"], lag=_lag(progress["sources"][0]))
        if is_over:
            query.awaitTermination()  # raises the error of a query that failed
            return copied
        if job.stop_requested():
            return copied
        time.sleep(_POLL_S)


def _lag(source: Any) -> int | None:
    ends, latest = (json.loads(source[name] or "null") for name in ("endOffset", "latestOffset"))
    if not ends or not latest:
        return None
    return sum(
        int(offset) - int(ends.get(topic, {}).get(partition, offset))
        for topic, offsets in latest.items()
        for partition, offset in offsets.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PacedRows:
    """A function for `mapInArrow` that passes rows through at a limited rate."""

    rate: float  # in records or bytes per second
    is_in_bytes: bool

    def __call__(self, batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        limit = RateLimit(self.rate, time.monotonic())
        for batch in batches:
            per_second = self.rate * batch.num_rows / max(batch.nbytes, 1) if self.is_in_bytes else self.rate
            step = max(int(per_second * _SLICE_S), 1)
            for start in range(0, batch.num_rows, step):
                piece = batch.slice(start, step)
                amount = piece.nbytes if self.is_in_bytes else piece.num_rows
                time.sleep(limit.wait_s(amount, time.monotonic()))
                yield piece
