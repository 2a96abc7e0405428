"""The reader of streaming queries.  Offsets have the form `{"topic": {"0": 23}}`, as in Spark's Kafka source.

One instance exists on the driver for as long as the query runs.  Executors get pickled copies, on which Spark calls
only `read`.  The progress of the query is stored only in Spark's checkpoint.

Data loss means that offsets which the query should have read no longer exist: the start is below the log start, a
partition is missing, or a topic was deleted and created again.  Gaps (from compaction or transaction markers) are not
data loss.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tidemill.columnar import data_loss, offset_bound
from tidemill.columnar.offset_ranges import OffsetRange, divided, limited, waiting_count
from tidemill.columnar.offset_reader import OffsetReader, Offsets
from tidemill.columnar.source_options import SourceOptions
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId
from tidemill.spark import range_rows, row_schema

if TYPE_CHECKING:
    import pyarrow as pa

_LOG = logging.getLogger(__name__)

JsonOffsets = dict[str, dict[str, int]]


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
        row_schema.chosen_columns(schema, has_headers=options.has_headers)
        self._options = options
        self._schema = schema
        self._make_offset_reader = make_offset_reader
        self._monotonic = monotonic
        self._reader: OffsetReader | None = None
        self._target: Offsets | None = None  # with Trigger.AvailableNow: the end of this run
        self._reported: Offsets | None = None
        self._topic_ids: dict[str, TopicId | None] = {}  # for the topics whose offsets this run has returned
        self._triggered_at: float | None = None  # monotonic time of the last trigger with data; None: no such trigger

    def __reduce__(self) -> tuple[type["StreamReader"], tuple[SourceOptions, StructType]]:
        return StreamReader, (self._options, self._schema)

    # Progress of the query

    def initialOffset(self) -> JsonOffsets:  # noqa: N802 - Spark's name
        reader = self._offset_reader()
        partitions = reader.partitions()
        starts = reader.resolve(self._options.starting, partitions, is_start=True)
        self._note_topic_ids(partitions)
        return offset_bound.to_json(starts)

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:  # noqa: N802 - Spark's name
        begin = offset_bound.from_json(start)
        ends = self._target if self._target is not None else self._latest(begin)
        self._reported = ends
        if isinstance(limit, ReadAllAvailable):
            return offset_bound.to_json(ends)
        if self._must_wait(begin, ends, limit):
            return offset_bound.to_json(begin)
        if isinstance(limit, ReadMaxRows):
            ends = limited(self._readable_start(begin, ends), ends, limit.max_rows)
        return offset_bound.to_json(ends)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit that the options set.  If they set a maximum and a minimum, `latestOffset` applies both."""
        if self._options.offsets_per_trigger_max is not None:
            return ReadMaxRows(self._options.offsets_per_trigger_max)
        if self._options.offsets_per_trigger_min is not None:
            return ReadMinRows(self._options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> JsonOffsets | None:  # noqa: N802 - Spark's name
        return None if self._reported is None else offset_bound.to_json(self._reported)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._latest({})

    def commit(self, end: JsonOffsets) -> None:
        """Do nothing: the offsets are stored in Spark's checkpoint."""

    def stop(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # Micro-batches

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        begin, ends = offset_bound.from_json(start), offset_bound.from_json(end)
        reader = self._offset_reader()
        if begin == ends:
            return []
        existing = set(reader.partitions(is_missing_allowed=True))
        self._report_gone((set(begin) | set(ends)) - existing)
        kept = sorted(set(ends) & existing)
        earliest = reader.earliest(kept)
        topic_ids = reader.topic_ids({partition.topic for partition in kept})
        ranges = [
            OffsetRange(
                *partition,
                self._start_of(partition, begin.get(partition), ends[partition], earliest[partition]),
                ends[partition],
                topic_ids[partition.topic],
            )
            for partition in kept
        ]
        planned = divided(
            ranges,
            partitions_min=self._options.partitions_min,
            records_per_partition_max=self._options.records_per_partition_max,
        )
        return [InputPartition(part) for part in planned]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        return range_rows.record_batches(self._options, self._schema, partition.value)

    # Implementation

    def _offset_reader(self) -> OffsetReader:
        if self._reader is None:
            self._reader = self._make_offset_reader(self._options)
        return self._reader

    def _latest(self, begin: Mapping[TopicPartition, int]) -> Offsets:
        """
        Return the end offsets of all existing partitions.

        Report as data loss the partitions of `begin` that are missing, and the topics that were created again.
        """
        reader = self._offset_reader()
        existing = reader.partitions(is_missing_allowed=True)
        self._report_gone(set(begin) - set(existing))
        self._report_recreated(existing)
        return reader.latest(existing, known=begin)

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

    def _readable_start(self, begin: Offsets, ends: Offsets) -> Offsets:
        """Return the start offsets; partitions that are new or were created again start at the log start offset."""
        unsure = [partition for partition, end in ends.items() if begin.get(partition, end + 1) > end]
        return {**begin, **self._offset_reader().earliest(unsure)}

    def _start_of(self, partition: TopicPartition, begin: int | None, end: int, earliest: int) -> int:
        name = f"{partition.topic}-{partition.partition}"
        if begin is None:
            if earliest != 0:
                self._report_loss(f"The new partition {name} starts at offset {earliest} instead of 0.")
            return earliest
        if end < begin:
            self._report_loss(
                f"The end of {name} decreased from offset {begin} to {end}: the topic was deleted and created again, "
                "or the query was started beyond its end."
            )
            return earliest
        if begin < min(earliest, end):
            self._report_loss(
                f"Offsets {begin} to {min(earliest, end)} of {name} no longer exist: it starts at {earliest}."
            )
            return min(earliest, end)
        return begin

    def _report_gone(self, gone: set[TopicPartition]) -> None:
        if gone:
            names = ", ".join(f"{topic}-{number}" for topic, number in sorted(gone))
            self._report_loss(f"The partitions {names} no longer exist.")

    def _report_recreated(self, existing: Sequence[TopicPartition]) -> None:
        """
        Report as data loss the topics whose id has changed since this query was started.

        Offsets alone do not show that a topic was created again if the new topic already has more records.
        """
        known = self._topic_ids
        now = self._offset_reader().topic_ids({partition.topic for partition in existing})
        for topic, topic_id in now.items():
            if known.get(topic) is not None and topic_id is not None and topic_id != known[topic]:
                self._report_loss(f"Topic {topic} was deleted and created again while the query was running.")
        self._topic_ids = {**known, **now}

    def _note_topic_ids(self, partitions: Sequence[TopicPartition]) -> None:
        self._topic_ids = self._offset_reader().topic_ids({partition.topic for partition in partitions})

    def _report_loss(self, what: str) -> None:
        data_loss.report(what, is_failing=self._options.is_failing_on_data_loss)
