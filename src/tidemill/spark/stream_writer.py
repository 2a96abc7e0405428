"""The writer of streaming queries, `df.writeStream.format("tidemill")`.  It is at-least-once.

After a failure or a restart, Spark may run the last micro-batch again, and its rows are written again.  Every output
mode appends rows, as in Spark's Kafka sink: with `complete`, each micro-batch writes the entire result.

Spark creates a writer to plan each micro-batch, and another, in another process, to commit it.  A writer therefore
keeps no state: only the options and the reports of the tasks connect the two.
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tidemill.columnar.sink_options import SinkOptions
from tidemill.spark import sink_task, write_commit
from tidemill.spark.write_commit import TaskReport

if TYPE_CHECKING:
    import pyarrow as pa

_LOG = logging.getLogger(__name__)


class StreamWriter(DataSourceStreamArrowWriter):
    """A thin adapter to Spark's interface.  A pickled copy is sent to every executor."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """Raise ValueError for a column that is not supported, or UnknownTopic (a ClientError)."""
        self._options = sink_task.checked(options, schema)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> TaskReport:
        return sink_task.write(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Accept a micro-batch.  Spark repeats this call if it stopped before it recorded the commit."""
        decision = write_commit.decide(messages)
        _LOG.info(
            "batch %d: wrote %d records in %d bytes to %s",
            batchId, decision.records, decision.bytes, decision.offsets,
        )  # fmt: skip

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Log how many records are stored already; stored records cannot be removed."""
        known = [message for message in messages if isinstance(message, TaskReport)]
        _LOG.warning(
            "batch %d failed; %d records of %d complete tasks stay in the topic, and are duplicated when it runs again",
            batchId,
            sum(report.summary.records for report in known),
            len(known),
        )
