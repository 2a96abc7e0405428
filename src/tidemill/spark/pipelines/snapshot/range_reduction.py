"""Reads ranges of a topic in executors, and reduces each to the newest record of every key."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.batches.arrow import schema
from tidemill.columnar.offset_ranges import OffsetRange
from tidemill.columnar.range_reader import RangeReader
from tidemill.columnar.source_options import SourceOptions
from tidemill.spark.pipelines.snapshot.newest_rows import MERGED, NewestRows
from tidemill.spark.plain_errors import plain_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def row_schema(*, has_headers: bool) -> str:
    """Return the columns of a snapshot as a schema in Spark's DDL syntax."""
    columns = "key binary, value binary, partition int, offset long, timestamp timestamp"
    return columns + (", headers array<struct<key: string, value: binary>>" if has_headers else "")


@dataclass(frozen=True, slots=True)
class _Reduction:
    """The function that Spark calls with the numbers of the ranges that a task must read.  It is pickled."""

    source: SourceOptions
    ranges: Sequence[OffsetRange]
    columns: Sequence[str]

    def __call__(self, numbers: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        with plain_errors():
            reader = RangeReader(self.source, self.columns)
            for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
                newest = NewestRows(schema(self.columns))
                for work in self.ranges[number : number + 1]:
                    for records in reader.record_batches(work):
                        yield from newest.add(records)
                yield from newest.flush()


def reduced(spark: "SparkSession", source: SourceOptions, ranges: Sequence[OffsetRange]) -> "DataFrame":
    """
    Return the newest records of every range, each with the number of records that were reduced to it (MERGED).

    There is at least one row, because every range returns a row without a key, whose count may be 0.
    """
    names = ["key", "value", "partition", "offset", "timestamp", *(["headers"] if source.has_headers else [])]
    tasks = max(len(ranges), 1)  # one task per range
    numbers = spark.range(0, tasks, 1, tasks)
    columns = f"{row_schema(has_headers=source.has_headers)}, {MERGED} long"
    return numbers.mapInArrow(_Reduction(source, tuple(ranges), tuple(names)), columns)
