"""The reader of streaming queries.  Offsets have the format `{"topic": {"0": 23}}`, as in Spark's Kafka source.

One instance exists on the driver for as long as the query runs.  Executors get pickled copies, on which Spark calls
only `read`.  The progress of the query is stored only in Spark's checkpoint.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tidemill.columnar import offset_bound
from tidemill.columnar.group_commits import DEADLINE_MS, GroupCommits
from tidemill.columnar.offset_bound import JsonOffsets, from_json, to_json
from tidemill.columnar.offset_ranges import divided, limited, limited_by_bytes, waiting_count
from tidemill.columnar.offset_reader import OffsetReader, Offsets
from tidemill.columnar.source_options import SourceOptions
from tidemill.columnar.stream_ranges import StreamRanges
from tidemill.spark import range_rows, row_schema
from tidemill.spark.plain_errors import plain_errors

if TYPE_CHECKING:
    import pyarrow as pa

_SAFETY = 4  # batches differ in size: an estimate this many times below the limit needs no further samples


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A thin adapter to Spark's interface.  Only its options and its schema are pickled."""

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        make_offset_reader: Callable[[SourceOptions], OffsetReader] = OffsetReader,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        # Refuse an unknown column before any task starts.
        row_schema.columns_for(schema, options)
        self._options = options
        self._schema = schema
        self._make_offset_reader = make_offset_reader
        self._monotonic = monotonic
        self._reader: OffsetReader | None = None
        self._ranges: StreamRanges | None = None
        self._commits: GroupCommits | None = None
        self._initial: JsonOffsets | None = None  # the start; None if the query resumes after a completed batch
        self._target: Offsets | None = None  # with Trigger.AvailableNow: the end of this run
        self._reported: Offsets | None = None
        self._triggered_at: float | None = None  # monotonic time of the last trigger with data; None: no such trigger

    def __reduce__(self) -> tuple[type["StreamReader"], tuple[SourceOptions, StructType]]:
        return StreamReader, (self._options, self._schema)

    # The methods with which Spark follows the progress of the query

    @plain_errors()
    def initialOffset(self) -> JsonOffsets:  # noqa: N802 - Spark's name
        """Return the start of the first batch.  Spark calls this method more than once."""
        if self._initial is None:
            initial = to_json(self._stream_ranges().initial())
            if self._commits is not None:
                self._commits.refuse_members()
            self._initial = initial
        return self._initial

    @plain_errors()
    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:  # noqa: N802 - Spark's name
        """Return the end of the next batch.  `start` is the end of the last completed batch, or the initial offset."""
        is_first = start == self._initial
        begin = from_json(start)
        ends = self._next_end(begin, limit)
        if not is_first:
            # Spark calls `commit` for a batch only after it has planned the next one, so never for the last batch of a
            # run.
            self.commit(start)
        if is_first and not offset_bound.is_repeatable(self._options.starting):
            return offset_bound.with_start(to_json(ends), start)
        return start if ends == begin else to_json(ends)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return a limit that the options set.  If they set more than one, `latestOffset` applies all of them."""
        if self._options.offsets_per_trigger_max is not None:
            return ReadMaxRows(self._options.offsets_per_trigger_max)
        if self._options.bytes_per_trigger_max is not None:
            return ReadMaxBytes(self._options.bytes_per_trigger_max)
        if self._options.offsets_per_trigger_min is not None:
            return ReadMinRows(self._options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> JsonOffsets | None:  # noqa: N802 - Spark's name
        return None if self._reported is None else to_json(self._reported)

    @plain_errors()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._stream_ranges().latest({})

    def commit(self, end: JsonOffsets) -> None:
        """Commit the end of a completed batch to commitGroup.  The query itself resumes from Spark's checkpoint."""
        if self._commits is not None:
            self._commits.commit(end)

    def stop(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # The methods with which Spark plans and reads a micro-batch

    @plain_errors()
    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        reader = self._open()
        begin = offset_bound.start_in(end)
        if begin is None and start == self._initial and not offset_bound.is_repeatable(self._options.starting):
            raise ValueError(
                "the checkpoint has a first batch that is planned but not completed, and does not have its start: "
                "set startingOffsets to the JSON in the last line of the checkpoint's file sources/0/0, or complete "
                "the batch with the source that planned it"
            )
        ranges = self._stream_ranges().between(from_json(begin or start), from_json(end))
        profiles = None
        if self._options.bytes_per_partition_max is not None:
            profiles = reader.size_profiles((one.topic_partition, one.start_offset, one.end_offset) for one in ranges)
        planned = divided(
            ranges,
            partitions_min=self._options.partitions_min,
            records_per_partition_max=self._options.records_per_partition_max,
            bytes_per_partition_max=self._options.bytes_per_partition_max,
            profiles=profiles,
        )
        return [InputPartition(part) for part in planned]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        with plain_errors():
            yield from range_rows.record_batches(self._options, self._schema, partition.value)

    # Helpers

    def _open(self) -> OffsetReader:
        if self._reader is None:
            self._options.data_loss.prepare()
            reader = self._make_offset_reader(self._options)
            self._reader = reader
            self._ranges = StreamRanges(self._options, reader)
            if (group := self._options.commit_group) is not None:
                self._commits = GroupCommits(group, reader.group_offsets(group, deadline_ms=DEADLINE_MS))
        return self._reader

    def _stream_ranges(self) -> StreamRanges:
        self._open()
        assert self._ranges is not None, "opening sets it"
        return self._ranges

    def _next_end(self, begin: Offsets, limit: ReadLimit) -> Offsets:
        ends = self._target if self._target is not None else self._stream_ranges().latest(begin)
        self._reported = ends
        if isinstance(limit, ReadAllAvailable):
            return ends
        if self._must_wait(begin, ends, limit):
            return begin
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.offsets_per_trigger_max
        bytes_max = self._options.bytes_per_trigger_max
        if rows_max is None and bytes_max is None:
            return ends
        readable = self._stream_ranges().readable_start(begin, ends)
        if rows_max is not None:
            ends = limited(readable, ends, rows_max)
        if bytes_max is not None:
            ends = self._limited_by_bytes(readable, ends, bytes_max)
        return ends

    def _limited_by_bytes(self, begin: Offsets, ends: Offsets, bytes_max: int) -> Offsets:
        """
        Return end offsets, none above the one in `ends`, so that about `bytes_max` bytes are read.

        One batch of each partition is sampled first, and more only if the limit may be reached.
        """
        reader = self._open()
        pending = [(partition, begin[partition], end) for partition, end in ends.items()]
        rough = reader.size_profiles(pending, samples_max=1)
        if sum(profile.total for profile in rough.values()) <= bytes_max / _SAFETY:
            return ends
        return limited_by_bytes(begin, ends, reader.size_profiles(pending), bytes_max)

    def _must_wait(self, begin: Offsets, ends: Offsets, limit: ReadLimit) -> bool:
        """
        Return whether to delay the trigger because of minOffsetsPerTrigger.

        The delay is at most maxTriggerDelay.  A run with Trigger.AvailableNow is never delayed, because it must end.
        """
        least = limit.min_rows if isinstance(limit, ReadMinRows) else self._options.offsets_per_trigger_min
        if least is None or self._target is not None:
            return False
        now = self._monotonic()
        overdue_at = (
            None if self._triggered_at is None else self._triggered_at + self._options.trigger_delay_ms_max / 1e3
        )
        if overdue_at is not None and now < overdue_at and waiting_count(begin, ends) < least:
            return True
        self._triggered_at = now
        return False
