"""Writes one part with Spark.  Each partition of the topic is written by one task, in event-time order."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tidemill.columnar.sink_options import SinkOptions
from tidemill.spark.pipelines.backfill.part_task import REPORT, PartTask
from tidemill.spark.pipelines.backfill.parts import Part, RecordReader
from tidemill.spark.pipelines.backfill.record_columns import PARTITION, TIMESTAMP
from tidemill.spark.pipelines.backfill.source_format import PLACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What the tasks of a part report."""

    records: int
    bytes: int  # size of keys, values and headers, before compression
    seconds: float  # time that the slowest task took


@dataclass(frozen=True, slots=True, kw_only=True)
class PartWriter:
    """Writes parts to one topic."""

    reader: RecordReader
    sink: SinkOptions
    partition_count: int
    task_max: int
    rate: float | None  # rate of all tasks together, in records or bytes per second
    is_rate_in_bytes: bool

    def write(self, part: Part) -> Written:
        """
        Write a part, and wait until every record is acknowledged.

        A failed attempt of a task may have stored records that the next attempt writes again, in the same order.
        """
        from pyspark.sql import functions as f

        options = self.reader.columns.options
        tasks = min(self.task_max, self.partition_count)
        task = PartTask(
            options=self.sink,
            headers=options.header_columns,
            rates=task_rates(self.rate, part.partitions, tasks),
            is_rate_in_bytes=self.is_rate_in_bytes,
        )
        rows = (
            self.reader.records(part)
            .repartitionById(tasks, f.col(PARTITION) % tasks)
            .sortWithinPartitions(TIMESTAMP, *PLACE)
            .select(*self.reader.columns.names())
        )
        reports = rows.mapInArrow(task, REPORT).collect()
        return Written(
            records=sum(row["records"] for row in reports),
            bytes=sum(row["bytes"] for row in reports),
            seconds=max(row["seconds"] for row in reports),
        )


def task_rates(rate: float | None, partitions: dict[int, int], tasks: int) -> tuple[float | None, ...]:
    """
    Return the rate of each task, in proportion to its number of records, so that all tasks end at about the same time.

    `partitions` maps each partition to its number of records; partition P belongs to task P % `tasks`.
    """
    if rate is None:
        return (None,) * tasks
    total = sum(partitions.values())
    records = [sum(count for number, count in partitions.items() if number % tasks == task) for task in range(tasks)]
    # A rate must be above 0, even that of a task without records, which sends nothing.
    return tuple(rate * (count or 1) / total for count in records)


@contextmanager
def polled(poll: Callable[[], None], every_s: float) -> Iterator[None]:
    """Call `poll` every `every_s` seconds in another thread, until the block ends."""
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(every_s):
            poll()

    thread = threading.Thread(target=run, name="backfill progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
