"""Finds how far records are due, by reading the timestamps of a partition ahead of the replay.

The broker's index of times would not do: it returns the first record of the whole partition at or after a time, which
may lie before the range if records are not in the order of their timestamps.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from tidemill.columnar.offset_ranges import OffsetRange
from tidemill.columnar.range_reader import RangeReader
from tidemill.columnar.source_options import SourceOptions
from tidemill.model.partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = Mapping[TopicPartition, int]
ReadTimes = Callable[[int, int], Iterator["pa.RecordBatch"]]
"""Reads the columns `offset` and `timestamp` of the records from an offset up to an offset."""


class RecordTimesAhead:
    """
    The timestamps of one partition from `offset` on; each record is read once.

    A record is not due before the records in front of it, so that the order of the partition is kept.
    """

    def __init__(self, offset: int, read: ReadTimes) -> None:
        self._read = read
        self._read_end = offset  # all records before it are read, or are in `_batches`
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._offsets: pa.Int64Array | None = None  # of records that are read and not due; never empty
        self._times: pa.Int64Array | None = None  # their timestamps in milliseconds

    def next_timestamp(self, end: int) -> int | None:
        """Return the timestamp of the first record before `end` that is not due yet; None if there is none."""
        if not self._fill(end):
            return None
        assert self._times is not None
        return int(self._times[0].as_py())

    def due_end(self, timestamp_ms: int, end: int) -> int:
        """
        Return the offset up to which records are due at this timestamp, at most `end`.

        Neither argument may be below that of an earlier call.
        """
        import pyarrow.compute as pc

        while self._fill(end):
            assert self._times is not None and self._offsets is not None
            first = pc.index(pc.greater(self._times, timestamp_ms), True).as_py()
            if first >= 0:
                self._times, self._offsets = self._times.slice(first), self._offsets.slice(first)
                return int(self._offsets[0].as_py())
            self._times = self._offsets = None
        return end

    def _fill(self, end: int) -> bool:
        """Read more if no record is pending.  Return whether one is."""
        import pyarrow as pa
        import pyarrow.compute as pc

        while self._times is None:
            rows = next(self._batches, None)
            if rows is None and self._read_end >= end:
                return False
            if rows is None:
                self._batches, self._read_end = self._read(self._read_end, end), end
            elif rows.num_rows:
                self._offsets = rows.column("offset")
                self._times = pc.divide(rows.column("timestamp").cast(pa.int64()), 1_000)
        return True


def times_ahead(source: SourceOptions, partition: TopicPartition, offset: int) -> RecordTimesAhead:
    """Return the timestamps of a partition from `offset` on, read from the cluster."""
    reader = RangeReader(source, ["offset", "timestamp"])

    def read(start: int, end: int) -> Iterator["pa.RecordBatch"]:
        return reader.record_batches(OffsetRange(partition.topic, partition.partition, start, end))

    return RecordTimesAhead(offset, read)


def edge_timestamps(source: SourceOptions, start: Offsets, end: Offsets) -> list[int]:
    """Return the timestamps of the first and the last record of every partition, in milliseconds, where there are."""
    found = []
    for partition, last in end.items():
        for first in {start[partition], max(start[partition], last - 1)}:  # the last offset may be a gap
            timestamp = times_ahead(source, partition, first).next_timestamp(last)
            if timestamp is not None:
                found.append(timestamp)
    return found
