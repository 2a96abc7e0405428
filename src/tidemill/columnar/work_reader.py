"""Reads what the plan of a read contains: ranges of offsets, or partitions in which records wait."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tidemill.batches.arrow import GROUP_BYTES_MAX
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.columnar import batch_plan, waiting_reader
from tidemill.columnar.offset_ranges import OffsetRange
from tidemill.columnar.range_reader import RangeReader
from tidemill.columnar.row_filter import RowFilter
from tidemill.columnar.source_options import SourceOptions
from tidemill.columnar.waiting_reader import WaitingPartition, WaitingReader

if TYPE_CHECKING:
    import pyarrow as pa

Work = OffsetRange | WaitingPartition
EVERY_ROW = RowFilter()


def plan(options: SourceOptions, row_filter: RowFilter = EVERY_ROW) -> Sequence[Work]:
    """Plan a batch read.  Raise the errors of `batch_plan.plan` and `waiting_reader.plan`."""
    if options.is_waiting:
        return waiting_reader.plan(options, row_filter)
    return batch_plan.plan(options, row_filter)


class WorkReader:
    """Reads the given columns, in the given order."""

    def __init__(
        self,
        options: SourceOptions,
        columns: Sequence[str],
        *,
        cluster: ClusterMetadata | None = None,
        group_bytes_max: int = GROUP_BYTES_MAX,
    ) -> None:
        """The arguments are those of RangeReader."""
        self._ranges = RangeReader(options, columns, cluster=cluster, group_bytes_max=group_bytes_max)
        self._waiting = WaitingReader(options, columns, cluster=cluster)

    def record_batches(self, work: Work) -> Iterator["pa.RecordBatch"]:
        """Yield the records of `work`.  Raise DataLossError and ClientError, as RangeReader does."""
        if isinstance(work, WaitingPartition):
            return self._waiting.record_batches(work)
        return self._ranges.record_batches(work)
