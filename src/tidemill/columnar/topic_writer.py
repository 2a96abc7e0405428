"""Writes Arrow rows to topics.  It runs in executors, and in programs that use Arrow without Spark.

with TopicWriter(options, schema) as writer:
    writer.write(rows)
    summary = writer.flush()
"""

from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tidemill.columnar.sink_options import SinkOptions
from tidemill.model.partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


class RowRefused(ValueError):
    """A row cannot be written.  The message names the topic, the partition, the row (from 0) and the fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSummary:
    """What a write has stored; every record of it is acknowledged by all in-sync replicas."""

    records: int = 0
    bytes: int = 0  # of the record batches, compressed
    # Per partition, the offset of the first record and the offset after the last.  Other producers may have records in
    # between.  An offset is -1 if the broker did not return it.
    offsets: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)


class TopicWriter:
    """
    Writes rows with the columns of Spark's Kafka sink, in the order of the rows per partition.  It is not thread-safe.

    `value` is required.  `key`, `headers`, `topic`, `partition` and `timestamp` are optional; other columns are
    ignored.  A row goes to its `partition`; without one, a row with a key goes to the partition that Java's producer
    chooses for the key, and a row without a key goes to one partition after the other, a batch each.
    """

    def __init__(self, options: SinkOptions, schema: "pa.Schema") -> None:
        """Check the schema and find the topic.  Raise ValueError for the schema, and ClientError."""
        raise NotImplementedError

    def write(self, rows: "pa.RecordBatch") -> None:
        """
        Write rows of the schema; wait while the buffer is full.

        Raise RowRefused for a row that cannot be written, and ClientError (DeliveryFailed, UnknownTopic).  After an
        error, earlier rows may or may not be stored.
        """
        raise NotImplementedError

    def flush(self) -> WriteSummary:
        """Wait until all rows are acknowledged.  Return the summary of all rows since the start.  Raise as `write`."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the connections.  Rows that are not flushed may be lost."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
