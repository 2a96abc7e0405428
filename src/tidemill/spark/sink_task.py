"""Checks a write on the driver, and writes the rows of one task.  Batch and streaming queries share this module."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from tidemill.columnar.sink_options import SinkOptions
from tidemill.columnar.topic_writer import TopicWriter, WriteSummary
from tidemill.spark import slow_nulls
from tidemill.spark.plain_errors import plain_errors
from tidemill.spark.write_commit import TaskReport

if TYPE_CHECKING:
    import pyarrow as pa

_QUERY_ID = "sql.streaming.queryId"  # names of Spark's local properties
_BATCH_ID = "streaming.sql.batchId"


def checked(options: SinkOptions, schema: StructType) -> SinkOptions:
    """
    Check the columns, the address and the option `topic` before any task starts.  Return the options for the tasks.

    With the returned options, a task waits for a broker that is unavailable, because the driver has reached the
    cluster.  Raise ValueError for an unsupported column, UnknownTopic, or another ClientError if a request fails.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    TopicWriter(options, to_arrow_schema(schema, timezone="UTC")).close()
    return options.for_tasks()


@plain_errors()
def write(options: SinkOptions, batches: Iterator["pa.RecordBatch"]) -> TaskReport:
    """
    Write the rows of one task, and wait until they are acknowledged.

    If the task fails, some of its rows may be stored; Spark's next attempt writes all of them again.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    batch_id = context.getLocalProperty(_BATCH_ID)
    writer: TopicWriter | None = None
    summary = WriteSummary()
    is_warned = False
    try:
        for rows in batches:
            if writer is None:
                writer = TopicWriter(options, rows.schema)
            is_warned = is_warned or slow_nulls.warn(rows, context.getLocalProperty(slow_nulls.KEY))
            writer.write(rows)
        if writer is not None:
            summary = writer.flush()
    finally:
        if writer is not None:
            writer.close()
    return TaskReport(
        query_id=context.getLocalProperty(_QUERY_ID),
        batch_id=None if batch_id is None else int(batch_id),
        task=context.partitionId(),
        attempt=context.attemptNumber(),
        summary=summary,
    )
