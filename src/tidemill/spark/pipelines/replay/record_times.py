"""Finds how far records are due, by reading the timestamps of a partition ahead of the replay.

The broker's index of times would not do: it returns the first record of the whole partition at or after a time, which
may lie before the range if records are not in the order of their timestamps.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from tidemill.columnar.offset_ranges import OffsetRange
from tidemill.columnar.range_reader import RangeReader
from tidemill.columnar.source_options import SourceOptions
from tidemill.model.partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = Mapping[TopicPartition, int]
ReadTimes = Callable[[int, int], Iterable["pa.RecordBatch"]]
"""Reads the columns `offset` and `timestamp` of the records from an offset up to an offset."""

CHUNK_OFFSETS: Final = 5_000
"""How many offsets are read at once.  Nothing is left half read, because a record may be due only after hours."""
_EDGE_OFFSETS: Final = 100


class RecordTimesAhead:
    """
    The timestamps of one partition from `offset` on; each record is read once.

    A record is not due before the records in front of it, so that the order of the partition is kept.
    """

    def __init__(self, offset: int, read: ReadTimes, *, chunk_offsets: int = CHUNK_OFFSETS) -> None:
        self._read = read
        self._chunk_offsets = chunk_offsets
        self._read_end = offset  # all records before it are read
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

        while self._times is None:
            if self._read_end >= end:
                return False
            start, self._read_end = self._read_end, min(self._read_end + self._chunk_offsets, end)
            batches = list(self._read(start, self._read_end))
            if sum(rows.num_rows for rows in batches):
                table = pa.Table.from_batches(batches).combine_chunks()
                self._offsets = table.column("offset").chunk(0)
                self._times = _milliseconds(table.column("timestamp").chunk(0))
        return True


def times_ahead(source: SourceOptions, partition: TopicPartition, offset: int) -> RecordTimesAhead:
    """Return the timestamps of a partition from `offset` on, read from the cluster."""
    return RecordTimesAhead(offset, partial(_read, source, partition))


def edge_timestamps(source: SourceOptions, start: Offsets, end: Offsets) -> list[int]:
    """Return timestamps of the first and the last records of every partition, in milliseconds, where there are."""
    found: list[int] = []
    for partition, last in end.items():
        first = start[partition]
        for begin in {first, max(first, last - _EDGE_OFFSETS)}:
            for rows in _read(source, partition, begin, min(begin + _EDGE_OFFSETS, last)):
                found += _milliseconds(rows.column("timestamp")).to_pylist()
    return found


def _read(source: SourceOptions, partition: TopicPartition, start: int, end: int) -> Iterable["pa.RecordBatch"]:
    work = OffsetRange(partition.topic, partition.partition, start, end)
    return RangeReader(source, ["offset", "timestamp"]).record_batches(work)


def _milliseconds(timestamps: "pa.Array") -> "pa.Int64Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.divide(timestamps.cast(pa.int64()), 1_000)
