"""Reads records that wait, one by one, from the logs of a timer partition.

A record is in memory, if its batch is not in a segment yet; or its row says where it lies in its segment's file.  Rows
of records whose time has changed do not say so: their batch is looked up by its offset.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
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
_LOGGED: Final = attrgetter("offset")  # the order of one log


class WaitingLogs:
    """The logs in which the records of a timer partition wait."""

    def __init__(self, arrivals: PartitionLog, kept: PartitionLog) -> None:
        self.arrivals = arrivals
        self.kept = kept
        self.arrivals_in_memory = WalkedBatches(arrivals.tail)
        self.kept_in_memory = WalkedBatches(kept.tail)


class _Found:
    """Records that were read.  Those of the last rows give way if all together have too many bytes."""

    def __init__(self, rows: Sequence[DueRow], bytes_max: int) -> None:
        self._rank = {row.arrival: rank for rank, row in enumerate(rows)}
        self._records: list[Waiting | None] = [None] * len(rows)  # by rank; those at the end are cut off
        self._bytes_left = bytes_max

    def add(self, row: DueRow, record: bytes | memoryview, timestamp: int) -> None:
        self.add_read(Waiting(row.arrival, row.due_ms, timestamp, bytes(record)))

    def add_read(self, waiting: Waiting) -> None:
        rank, records = self._rank[waiting.arrival], self._records
        if rank >= len(records):
            return
        records[rank] = waiting
        self._bytes_left -= len(waiting.record)
        while self._bytes_left < 0 and len(records) > 1:
            last = records.pop()
            self._bytes_left += 0 if last is None else len(last.record)

    def waiting(self) -> list[Waiting]:
        """Return the records of the first rows, in order."""
        found = [it for it in self._records if it is not None]
        assert len(found) == len(self._records), "every row was read"
        return found


def read_waiting(
    logs: WaitingLogs,
    rows: Sequence[DueRow],
    ahead: Mapping[int, Waiting],
    *,
    may_wait: bool,
    bytes_max: int = FOUND_BYTES_MAX,
) -> list[Waiting] | None:
    """
    Return the records of `rows`, in their order.  `ahead` has some that were read already, by arrival.  If others must
    be read, and all have more than `bytes_max`, return the first ones, at least one: rows of records whose time has
    changed do not say how large they are.  None if that would wait for the disk, or take long, and `may_wait` is false.
    Raise OffsetGone, or SegmentDamaged instead of returning wrong bytes.
    """
    unread = [row for row in rows if row.arrival not in ahead]
    if not unread:
        return [ahead[row.arrival] for row in rows]
    found = _Found(rows, bytes_max)
    for waiting in ahead.values():
        found.add_read(waiting)
    for log, in_memory, of_log in (
        (logs.arrivals, logs.arrivals_in_memory, [row for row in unread if not row.offset & KEPT]),
        (logs.kept, logs.kept_in_memory, [row for row in unread if row.offset & KEPT]),
    ):
        if of_log and not _read(log, in_memory, of_log, found, may_wait=may_wait):
            return None
    return found.waiting()


def _read(
    log: PartitionLog, in_memory: WalkedBatches, rows: Sequence[DueRow], found: _Found, *, may_wait: bool
) -> bool:
    """Read the records of one log.  Return False if a read would wait for the disk and `may_wait` is false."""
    placed = sorted([row for row in rows if row.position != UNPLACED], key=_LOGGED)
    records = in_memory.records([row.offset & ~KEPT for row in placed])
    in_files = []
    for row in placed:
        record = records.get(row.offset & ~KEPT)
        if record is None:
            in_files.append(row)
        else:
            found.add(row, record, row.timestamp)
    stale = _read_files(log, in_files, found, may_wait=may_wait)
    unplaced = [row for row in rows if row.position == UNPLACED]
    return stale is not None and _look_up(log, [*unplaced, *stale], found, may_wait=may_wait)


def _read_files(log: PartitionLog, rows: Sequence[DueRow], found: _Found, *, may_wait: bool) -> list[DueRow] | None:
    """
    Read records where their rows, in the order of the log, say.  Return the rows that are wrong: of a run from before
    an install, or because the segment is damaged; or None if a read would wait for the disk and `may_wait` is false.
    """
    wrong: list[DueRow] = []
    for segment, run in _runs(log, rows):
        first = run[0].position
        size = run[-1].position + run[-1].size - first
        if segment is None or first + size > segment.written:
            wrong += run
            continue
        data = log.read_bytes(segment, first, size, may_wait=may_wait)
        if data is None:
            return None
        view = memoryview(data)
        for row in run:
            start = row.position - first
            record = view[start : start + row.size]
            if crc32c(record) == row.crc:
                found.add(row, record, row.timestamp)
            else:
                wrong.append(row)
    return wrong


def _runs(log: PartitionLog, rows: Sequence[DueRow]) -> Iterator[tuple[Segment | None, Sequence[DueRow]]]:
    """Group rows whose records lie close to each other in one segment.  The rows are in the order of the log."""
    begin = 0
    while begin < len(rows):
        segment = log.segment_of(_offset(rows[begin]))
        later = [it.base_offset for it in log.segments if it.base_offset > _offset(rows[begin])]
        end = bisect_left(rows, later[0], begin, key=_offset) if later else len(rows)
        stop = start = rows[begin].position
        for at in range(begin, end):
            _, _, _, position, size, *_ = rows[at]
            is_near = 0 <= position - stop <= GAP_BYTES_MAX  # rows of a run from before an install are in no order
            if not is_near or position + size - start > RUN_BYTES_MAX:
                yield segment, rows[begin:at]
                begin, start = at, position
            stop = position + size
        yield segment, rows[begin:end]
        begin = end


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
