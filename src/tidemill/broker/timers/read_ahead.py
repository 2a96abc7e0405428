"""ReadAhead: reads records of one timer partition shortly before they are due, so that their release does not wait.

    rows of the window, due within two seconds ─▶ a job reads their records, in the order of the log ─▶ a lot in memory
                                                                                                          │
    rows that are due, taken from the index ─────────────────────────────────────────▶ their records ◀────┘

Only bytes are kept here.  What waits and when it is due is decided when rows are taken, so a record that was cancelled
since is not asked for, and one whose time has changed is not found.  A record that is not found is read when it is due.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from tidemill.broker.machine import Machine
from tidemill.broker.timers.waiting_reader import WaitingLogs, read_waiting
from tidemill.storage.partition.partition_log import OffsetGone
from tidemill.timer.due_index import DueIndex
from tidemill.timer.due_row import DueRow, key_of, unpack_rows
from tidemill.timer.release_batch import Waiting

AHEAD_MS: Final = 2_000  # a cold disk delivers what is due within this time before it is due
JOB_MS: Final = 50  # about as long as a job takes
LOT_BYTES_MAX: Final = 4 << 20  # read by one job, which keeps a reader thread from other reads
LOTS_MAX: Final = 4  # of a partition
BROKER_BYTES_MAX: Final = 64 << 20
RECORD_BYTES: Final = 300  # memory that a record in a lot takes beside its own bytes


class ReadAheadRoom:
    """The memory that is left to the lots of all partitions of a broker.  Without room, nothing is read ahead."""

    def __init__(self, size: int = BROKER_BYTES_MAX) -> None:
        self.left = size


class _Lot(NamedTuple):
    records: dict[int, Waiting]  # by arrival
    first_ms: int  # when the first one was due when it was read
    last_ms: int
    size: int


class ReadAhead:
    def __init__(self, index: DueIndex, logs: WaitingLogs, machine: Machine, room: ReadAheadRoom) -> None:
        self._index = index
        self._logs = logs
        self._machine = machine
        self._room = room
        self._lots: deque[_Lot] = deque()
        self._end = b""  # the key up to which rows have been read
        self._is_reading = False
        self._is_over = False

    def stop(self) -> None:
        """Forget what was read: this broker no longer leads the partition."""
        self._is_over = True
        while self._lots:
            self._drop_first()

    def take(self, rows: Sequence[DueRow]) -> dict[int, Waiting]:
        """Return the records of rows, which are in order, by arrival, as far as they have been read."""
        found: dict[int, Waiting] = {}
        for records, first_ms, last_ms, _ in self._lots:
            if rows and first_ms <= rows[-1].due_ms and rows[0].due_ms <= last_ms:
                of = records.get
                for row in rows:
                    it = of(row.arrival)
                    if it is not None and it.due_ms == row.due_ms:
                        found[row.arrival] = it
        return found

    def read_on(self, limit_ms: int) -> None:
        """Drop lots whose records have been released, and read what is due soon.  `limit_ms` is what is due now."""
        due = self._index.next_due()
        while self._lots and (due is None or self._lots[0].last_ms < due):
            self._drop_first()
        if due is None or due >= limit_ms + AHEAD_MS:
            return
        is_read = self._end > key_of(limit_ms + AHEAD_MS // 2)
        has_room = len(self._lots) < LOTS_MAX and self._room.left >= LOT_BYTES_MAX
        if self._is_reading or is_read or not has_room:
            return
        # What is due before the job can have ended is read by the release itself: nothing is read twice.
        first = max(self._end, key_of(limit_ms + JOB_MS))
        packed, end = self._index.upcoming(first, key_of(limit_ms + AHEAD_MS))
        if not packed:
            self._end = end
            return
        self._is_reading = True
        self._room.left -= LOT_BYTES_MAX

        def read() -> tuple[list[Waiting], bytes]:
            every = [*{row.arrival: row for row in unpack_rows(packed)}.values()]  # the newest copies
            rows = every[: _fitting(every)]
            try:
                found = read_waiting(self._logs, rows, {}, may_wait=True, bytes_max=LOT_BYTES_MAX)
            except (OSError, OffsetGone):
                return [], end  # the release of these records meets the same problem, and reports it
            assert found is not None, "a read that may wait returns records"
            return found, end if len(found) == len(every) else key_of(*every[len(found)][:2])

        def done(read: tuple[list[Waiting], bytes]) -> None:
            self._is_reading = False
            self._room.left += LOT_BYTES_MAX
            found, self._end = read
            if found and not self._is_over:
                size = sum(len(it.record) for it in found) + RECORD_BYTES * len(found)
                self._room.left -= size
                records = {it.arrival: it for it in found}
                self._lots.append(_Lot(records, found[0].due_ms, found[-1].due_ms, size))

        self._machine.read_jobs.submit(read, done, self._machine.failed)

    def _drop_first(self) -> None:
        self._room.left += self._lots.popleft().size


def _fitting(rows: Sequence[DueRow]) -> int:
    """Return how many of the first rows have records for which a lot has room; at least one."""
    size = 0
    for count, row in enumerate(rows):
        size += row.size + RECORD_BYTES
        if count and size > LOT_BYTES_MAX:
            return count
    return len(rows)
