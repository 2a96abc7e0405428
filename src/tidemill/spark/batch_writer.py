"""The writer of batch queries, `df.write.format("tidemill").mode("append")`.  It is at-least-once.

A failed attempt of a task may have stored rows that the next attempt writes again.  After a write fails or is aborted,
the rows of the completed tasks remain in the topic.
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tidemill.columnar.sink_options import SinkOptions
from tidemill.spark import sink_task, write_commit
from tidemill.spark.write_commit import TaskReport

if TYPE_CHECKING:
    import pyarrow as pa

_LOG = logging.getLogger(__name__)


class BatchWriter(DataSourceArrowWriter):
    """A thin adapter to Spark's interface.  A pickled copy is sent to every executor."""

    def __init__(self, options: SinkOptions, schema: StructType, *, is_overwriting: bool) -> None:
        """Raise ValueError for a save mode or column that is not supported, or UnknownTopic (a ClientError)."""
        if is_overwriting:
            raise ValueError(
                "Save mode Overwrite not allowed for Tidemill: a topic is a log, to which rows are only appended; use "
                'mode("append")'
            )
        self._options = sink_task.checked(options, schema)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> TaskReport:
        return sink_task.write(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        decision = write_commit.decide(messages)
        _LOG.info("wrote %d records in %d bytes to %s", decision.records, decision.bytes, decision.offsets)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log how many records are stored already; stored records cannot be removed."""
        known = [message for message in messages if isinstance(message, TaskReport)]
        _LOG.warning(
            "the write failed; %d records of %d complete tasks stay in the topic, and a new write would duplicate them",
            sum(report.summary.records for report in known),
            len(known),
        )
