"""The reader of streaming queries with mode=share, which process the records of a share group.

One instance exists on the driver for as long as the query runs.  Executors get pickled copies, on which Spark calls
only `read`.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tidemill.columnar import share_batch
from tidemill.columnar.acquired_rows import AcquiredReader
from tidemill.columnar.group_locks import GroupLocks
from tidemill.columnar.offset_reader import OffsetReader
from tidemill.columnar.share_batch import JsonBatch
from tidemill.columnar.share_batches import ShareBatches
from tidemill.columnar.share_options import ShareOptions
from tidemill.spark import row_schema
from tidemill.spark.orderly_exit import exit_on_termination
from tidemill.spark.plain_errors import plain_errors

if TYPE_CHECKING:
    import pyarrow as pa


def batches_of(options: ShareOptions) -> ShareBatches:
    """Return the batches of a new run.  Raise ClientError if the cluster cannot be reached."""
    return ShareBatches(
        options,
        uuid.uuid4().hex[:12],
        open_locks=lambda: GroupLocks.opened(options.source.connection, options.group),
        open_partitions=lambda: OffsetReader(options.source),
    )


class ShareStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A thin adapter to Spark's interface.  Only its options and its schema are pickled."""

    def __init__(
        self,
        options: ShareOptions,
        schema: StructType,
        make_batches: Callable[[ShareOptions], ShareBatches] = batches_of,
    ) -> None:
        # Refuse an unknown column before any task starts.
        self._columns = row_schema.chosen_columns(schema, has_headers=options.source.has_headers, is_share=True)
        self._options = options
        self._schema = schema
        self._make_batches = make_batches
        self._opened: ShareBatches | None = None

    def __reduce__(self) -> tuple[type["ShareStreamReader"], tuple[ShareOptions, StructType]]:
        return ShareStreamReader, (self._options, self._schema)

    # The methods with which Spark follows the progress of the query

    @plain_errors()
    def initialOffset(self) -> JsonBatch:  # noqa: N802 - Spark's name
        """Return the start of the first batch.  Spark calls this method more than once."""
        self._open()  # a new group starts now
        return share_batch.start_json(self._options.group)

    @plain_errors()
    def latestOffset(self, start: JsonBatch, limit: ReadLimit) -> JsonBatch:  # noqa: N802 - Spark's name
        """Return the end of the next batch.  The batch that ends at `start` is in Spark's commit log."""
        return self._open().next(start, limit.max_rows if isinstance(limit, ReadMaxRows) else None)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        rows_max = self._options.source.offsets_per_trigger_max
        return ReadAllAvailable() if rows_max is None else ReadMaxRows(rows_max)

    def reportLatestOffset(self) -> None:  # noqa: N802 - Spark's name
        return None

    @plain_errors()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._open().end_with_available()

    @plain_errors()
    def commit(self, end: JsonBatch) -> None:
        """Acknowledge a complete batch, unless `latestOffset` has done so already."""
        self._open().complete(end)

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    # The methods with which Spark plans and reads a micro-batch

    @plain_errors()
    def partitions(self, start: JsonBatch, end: JsonBatch) -> Sequence[InputPartition]:
        return [InputPartition(work) for work in self._open().works(end)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        from pyspark.sql.pandas.types import to_arrow_schema

        wanted = to_arrow_schema(self._schema, timezone="UTC")
        with plain_errors():
            for rows in AcquiredReader(self._options.source, self._columns).record_batches(partition.value):
                yield type(rows).from_arrays(rows.columns, schema=wanted)

    def _open(self) -> ShareBatches:
        if self._opened is None:
            exit_on_termination()
            self._opened = self._make_batches(self._options)
            self._opened.open()
        return self._opened
