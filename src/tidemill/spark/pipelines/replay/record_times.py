"""Determines up to which offset records are due, by reading the timestamps of a partition ahead of the replay.

The broker's time index cannot be used: it returns the first record of the entire partition at or after a timestamp.  If
records are not in timestamp order, that record may be before the range.
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
"""A function that reads the columns `offset` and `timestamp` of the records from a start offset to an end offset."""

CHUNK_OFFSETS: Final = 5_000
"""How many offsets are read at a time.

Each read is completed before the replay waits, because the next record may be due only hours later.
"""
_EDGE_OFFSETS: Final = 100


class RecordTimesAhead:
    """
    The timestamps of one partition from `offset` on; each record is read once.

    A record is never due before the records that precede it in the partition, so that the order is preserved.
    """

    def __init__(self, offset: int, read: ReadTimes, *, chunk_offsets: int = CHUNK_OFFSETS) -> None:
        self._read = read
        self._chunk_offsets = chunk_offsets
        self._read_end = offset  # all records before this offset have been read
        self._offsets: pa.Int64Array | None = None  # offsets of records that are read and not yet due; never empty
        self._times: pa.Int64Array | None = None  # their timestamps in milliseconds

    def next_timestamp(self, end: int) -> int | None:
        """Return the timestamp of the first record before `end` that is not due yet; None if there is none."""
        if not self._fill(end):
            return None
        assert self._times is not None
        return int(self._times[0].as_py())

    def due_end(self, timestamp_ms: int, end: int) -> int:
        """
        Return the offset, at most `end`, up to which records are due at this timestamp.

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
        """Read more records if none is pending.  Return whether a record is pending."""
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
    """Return timestamps of the first and the last records of every partition that has records, in milliseconds."""
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
