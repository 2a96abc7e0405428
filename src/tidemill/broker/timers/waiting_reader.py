"""Reads records that wait, one by one, from the logs of a timer partition.

A record is in memory, if its batch is not in a segment yet; or its row says where it lies in its segment's file.  Rows
of records whose time has changed do not say so: their batch is looked up by its offset.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final

from tidemill.batches.batch import read_header
from tidemill.batches.checksum import crc32c
from tidemill.broker.timers.walked_batches import WalkedBatches
from tidemill.storage.disk import Buffer
from tidemill.storage.partition.partition_log import OffsetGone, PartitionLog
from tidemill.storage.partition.segment import Segment
from tidemill.timer.arrival_records import records_at
from tidemill.timer.due_row import KEPT, UNPLACED, DueRow
from tidemill.timer.release_batch import Waiting

GAP_BYTES_MAX: Final = 4 << 10  # bytes between two records that are read along, because a second read costs more
RUN_BYTES_MAX: Final = 1 << 20
FOUND_BYTES_MAX: Final = 1 << 20  # of the records that are returned together


class WaitingLogs:
    """The logs in which the records of a timer partition wait."""

    def __init__(self, arrivals: PartitionLog, kept: PartitionLog) -> None:
        self.arrivals = arrivals
        self.kept = kept
        self.arrivals_in_memory = WalkedBatches(arrivals.tail)
        self.kept_in_memory = WalkedBatches(kept.tail)


class _Found:
    """Records that were read.  Those of the last rows give way if all together have too many bytes."""

    def __init__(self, rows: Sequence[DueRow]) -> None:
        self._rows = rows
        self._rank = {row.arrival: rank for rank, row in enumerate(rows)}
        self._end = len(rows)  # the rank from which on records have given way
        self._records: dict[int, tuple[bytes | memoryview, int]] = {}  # by rank, with their timestamps
        self._last: list[int] = []  # a heap of their ranks, negated
        self._size = 0

    def add(self, row: DueRow, record: bytes | memoryview, timestamp: int) -> None:
        rank = self._rank[row.arrival]
        if rank >= self._end:
            return
        self._records[rank] = record, timestamp
        heappush(self._last, -rank)
        self._size += len(record)
        while self._size > FOUND_BYTES_MAX and len(self._last) > 1:
            self._end = -heappop(self._last)
            self._size -= len(self._records.pop(self._end)[0])

    def waiting(self) -> list[Waiting]:
        """Return the records of the first rows, in order."""
        records = self._records
        return [
            Waiting(row.arrival, row.due_ms, *records[rank][::-1]) for rank, row in enumerate(self._rows[: self._end])
        ]


def read_waiting(logs: WaitingLogs, rows: Sequence[DueRow], *, may_wait: bool) -> list[Waiting] | None:
    """
    Return the records of `rows`, in their order, or of the first ones if all have more than FOUND_BYTES_MAX, at least
    one: rows of records whose time has changed do not say how large they are.  None if that would wait for the disk, or
    take long, and `may_wait` is false.  Raise OffsetGone, or SegmentDamaged instead of returning wrong bytes.
    """
    found = _Found(rows)
    for log, in_memory, of_log in (
        (logs.arrivals, logs.arrivals_in_memory, [row for row in rows if not row.offset & KEPT]),
        (logs.kept, logs.kept_in_memory, [row for row in rows if row.offset & KEPT]),
    ):
        if of_log and not _read(log, in_memory, of_log, found, may_wait=may_wait):
            return None
    return found.waiting()


def _read(
    log: PartitionLog, in_memory: WalkedBatches, rows: Sequence[DueRow], found: _Found, *, may_wait: bool
) -> bool:
    """Read the records of one log.  Return False if a read would wait for the disk and `may_wait` is false."""
    records = in_memory.records(_offset(row) for row in rows if row.position != UNPLACED)
    in_files: list[tuple[Segment, DueRow]] = []
    unplaced: list[DueRow] = []
    for row in rows:
        record = records.get(_offset(row)) if row.position != UNPLACED else None
        if record is not None:
            found.add(row, record, row.timestamp)
            continue
        segment = log.segment_of(_offset(row)) if row.position != UNPLACED else None
        if segment is not None and row.position + row.size <= segment.written:
            in_files.append((segment, row))
        else:
            unplaced.append(row)
    stale = _read_files(log, in_files, found, may_wait=may_wait)
    return stale is not None and _look_up(log, [*unplaced, *stale], found, may_wait=may_wait)


def _read_files(
    log: PartitionLog, wanted: list[tuple[Segment, DueRow]], found: _Found, *, may_wait: bool
) -> list[DueRow] | None:
    """
    Read records where their rows say.  Return the rows that are wrong: of a run from before an install, or because the
    segment is damaged; or None if a read would wait for the disk and `may_wait` is false.
    """
    wanted.sort(key=lambda it: (it[0].base_offset, it[1].position))
    wrong = []
    for segment, run in _runs(wanted):
        first = run[0].position
        data = log.read_bytes(segment, first, run[-1].position + run[-1].size - first, may_wait=may_wait)
        if data is None:
            return None
        view = memoryview(data)
        for row in run:
            record = view[row.position - first : row.position - first + row.size]
            if crc32c(record) == row.crc:
                found.add(row, record, row.timestamp)
            else:
                wrong.append(row)
    return wrong


def _runs(wanted: Sequence[tuple[Segment, DueRow]]) -> list[tuple[Segment, list[DueRow]]]:
    """Group records of one segment that lie close to each other.  `wanted` is sorted by segment and position."""
    if not wanted:
        return []
    segment, row = wanted[0]
    runs = [(segment, [row])]
    for (before_segment, before), (segment, row) in pairwise(wanted):
        run = runs[-1][1]
        is_near = row.position - (before.position + before.size) <= GAP_BYTES_MAX
        is_small = row.position + row.size - run[0].position <= RUN_BYTES_MAX
        if segment is before_segment and is_near and is_small:
            run.append(row)
        else:
            runs.append((segment, [row]))
    return runs


def _look_up(log: PartitionLog, rows: Iterable[DueRow], found: _Found, *, may_wait: bool) -> bool:
    """
    Find records by their offsets.  Walking a batch takes long, even if it is in memory, so `may_wait` must be true if
    there are any.
    """
    wanted = sorted(rows, key=_offset)
    if wanted and not may_wait:
        return False
    at = 0
    while at < len(wanted):
        offset = _offset(wanted[at])
        batches = log.read(offset, 1, log.end_offset, may_wait=may_wait)
        batch: Buffer | None = batches[0][0] if batches is not None and batches[0] else None
        if batch is None:
            raise OffsetGone(f"offset {offset} of {log.directory} is not there any more")
        until = bisect_left(wanted, read_header(batch).end_offset, at, key=_offset)
        within = wanted[at:until]
        for row, record in zip(within, records_at(batch, map(_offset, within)), strict=True):
            found.add(row, *record)
        at = until
    return True


def _offset(row: DueRow) -> int:
    return row.offset & ~KEPT
