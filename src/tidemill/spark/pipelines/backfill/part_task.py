"""Writes the rows of one task in their order, at the task's share of the rate.  It runs in executors."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidemill.columnar.sink_options import SinkOptions
from tidemill.columnar.topic_writer import TopicWriter
from tidemill.spark.pipelines.backfill.rate_limit import RateLimit

if TYPE_CHECKING:
    import pyarrow as pa

REPORT: Final = "task int, records bigint, bytes bigint, seconds double"
_SLICE_S: Final = 0.2  # with a rate limit, the time between two sends


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTask:
    """A function for `mapInArrow` that writes rows, and returns one row with the columns of REPORT."""

    options: SinkOptions
    headers: tuple[str, ...]  # the names of the headers, whose values are in the columns after `partition`
    rates: tuple[float | None, ...]  # per task, in records or bytes per second; None: not limited
    is_rate_in_bytes: bool

    def __call__(self, batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa
        from pyspark import TaskContext

        from tidemill.spark.plain_errors import plain_errors

        context = TaskContext.get()
        assert context is not None
        task = context.partitionId()
        began = time.monotonic()
        with plain_errors():
            records, size = self._write(batches, self.rates[task], began)
        seconds = time.monotonic() - began
        yield pa.RecordBatch.from_pylist(
            [{"task": task, "records": records, "bytes": size, "seconds": seconds}],
            pa.schema([("task", "int32"), ("records", "int64"), ("bytes", "int64"), ("seconds", "float64")]),
        )

    def _write(self, batches: Iterator["pa.RecordBatch"], rate: float | None, now: float) -> tuple[int, int]:
        """Write the rows.  Return the number of acknowledged records, and their bytes before compression."""
        limit = None if rate is None else RateLimit(rate, now)
        writer: TopicWriter | None = None
        records = size = 0
        try:
            for batch in batches:
                rows = with_headers(batch, self.headers)
                if writer is None:
                    writer = TopicWriter(self.options, rows.schema)
                sizes = record_sizes(batch)
                step = self._rows_at_a_time(rate, rows.num_rows, sum_of(sizes))
                for start in range(0, rows.num_rows, step):
                    piece = sizes.slice(start, step)
                    size += (piece_bytes := sum_of(piece))
                    if limit is not None:
                        time.sleep(limit.wait_s(piece_bytes if self.is_rate_in_bytes else len(piece), time.monotonic()))
                    writer.write(rows.slice(start, step))
                    if limit is not None:
                        writer.flush()  # otherwise rows would accumulate and be sent in bursts
            if writer is not None:
                records = writer.flush().records
        finally:
            if writer is not None:
                writer.close()
        return records, size

    def _rows_at_a_time(self, rate: float | None, rows: int, size: int) -> int:
        if rate is None:
            return max(rows, 1)
        per_second = rate * rows / max(size, 1) if self.is_rate_in_bytes else rate
        return max(int(per_second * _SLICE_S), 1)


def with_headers(batch: "pa.RecordBatch", names: tuple[str, ...]) -> "pa.RecordBatch":
    """Return the columns key, value, timestamp and partition, and a column `headers` built from the other columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from tidemill.batches.row_encoder import headers_type

    columns = {name: batch.column(name) for name in ("key", "value", "timestamp", "partition")}
    if names:
        count = len(names)
        rows = batch.num_rows
        # `values` contains the first header of every row, then the second header of every row; `places` groups them by
        # row.
        values = pa.concat_arrays([batch.column(f"header_{index}") for index in range(count)])
        places = pa.array([header * rows + row for row in range(rows) for header in range(count)], pa.int64())
        keys = pc.take(pa.array(names, pa.string()), pa.array(list(range(count)) * rows, pa.int64()))
        entry = headers_type().value_type
        entries = pa.StructArray.from_arrays([keys, values.take(places)], fields=list(entry))
        offsets = pa.array(range(0, (rows + 1) * count, count), pa.int32())
        columns["headers"] = pa.ListArray.from_arrays(offsets, entries, type=headers_type())
    return pa.RecordBatch.from_pydict(columns)


def record_sizes(batch: "pa.RecordBatch") -> "pa.Array":
    """Return the total size of the key, value and header values of each row, in bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    total = pa.array([0], pa.int64()).take(pa.array([0] * batch.num_rows, pa.int64()))
    for name in batch.schema.names:
        if name in ("key", "value") or name.startswith("header_"):
            total = pc.add(total, pc.fill_null(pc.binary_length(batch.column(name)), 0).cast(pa.int64()))
    return total


def sum_of(sizes: "pa.Array") -> int:
    import pyarrow.compute as pc

    return pc.sum(sizes).as_py() or 0
