"""Restores what a replica of a timer partition needs, after a start or an install: the index and the ids of timers.

    runs of the index, file by file ─▶ what no run has: read from the logs, part by part ─▶ deferred changes are applied

Each step is a job, so that memory is bounded and the broker goes on meanwhile.  When a file of the index has become
unreadable later, only its rows are read from the logs.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from tidemill.batches.batch import read_header
from tidemill.broker.timers.index_files import IndexFiles
from tidemill.broker.timers.positioned_batches import positioned_batches
from tidemill.broker.timers.waiting_reader import WaitingLogs
from tidemill.shard.jobs import Jobs
from tidemill.timer.arrival_records import arrivals_in, kept_in
from tidemill.timer.due_row import KEPT, ROW_BYTES, arrivals_of
from tidemill.timer.due_run import ReadRun
from tidemill.timer.native import due_scan
from tidemill.timer.timer_partition import TimerPartition
from tidemill.timer.waiting_bits import BitView

PART_RECORDS: Final = 1 << 17  # read by one job
TURN_RECORDS_MAX: Final = 10_000  # that deferred changes concern which are applied in one turn of the event loop


class Part(NamedTuple):
    """What a job has read of a log."""

    end: int  # the offset up to which it has read
    rows: bytes
    ids: list[tuple[int, bytes]]


class Restoring:
    def __init__(
        self,
        timers: TimerPartition,
        logs: WaitingLogs,
        files: IndexFiles,
        jobs: Jobs,
        *,
        ended: Callable[[OSError | None], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """`ended` is called with None when all is restored, or with the reason why it cannot be now."""
        self._timers = timers
        self._logs = logs
        self._files = files
        self._jobs = jobs
        self._ended = ended
        self._failed = failed
        self._names: list[str] = []
        self._is_over = False

    def begin(self) -> None:
        index = self._timers.index
        index.arrivals_start = self._logs.arrivals.log_start
        if self._timers.is_restored:
            self._next()
            return

        def listed(names: list[str]) -> None:
            self._names = [name for name in names if not index.has_run(name)]  # an earlier try has added some
            self._next()

        self._submit(self._files.names, listed)

    def stop(self) -> None:
        """End without a call of `ended`: an install has replaced the state."""
        self._is_over = True

    def _next(self) -> None:
        """Read the next run, or the next part of what no run has."""
        if self._names:
            name = self._names.pop()
            self._submit(lambda: self._files.read_run(name), lambda read: self._run_was_read(name, read))
            return
        missing = self._timers.index.missing()
        if not missing:
            if self._timers.is_restored or self._timers.apply_deferred(TURN_RECORDS_MAX):
                self._ended(None)
            else:
                self._submit(lambda: None, lambda _: self._next())  # in another turn: others are served between two
            return
        first, end = missing[0]
        bits = self._timers.waiting.fixed_bits()  # the job must not see them change
        self._submit(lambda: read_part(self._logs, first, end, bits), lambda part: self._part_was_read(first, part))

    def _run_was_read(self, name: str, read: ReadRun | None) -> None:
        if read is None:
            self._files.remove([name])
        else:
            self._timers.restore_run(read)
        self._next()

    def _part_was_read(self, first: int, part: Part) -> None:
        self._timers.restore_range(first, part.end, part.rows, part.ids)
        self._files.flush_if_large()
        self._next()

    def _submit(self, job: Callable[[], object], done: Callable[..., None]) -> None:
        def run() -> object:
            try:
                return job()
            except LookupError as error:  # the log was trimmed meanwhile
                return OSError(str(error))
            except OSError as error:
                return error

        def ran(result: object) -> None:
            if self._is_over:
                return
            if isinstance(result, OSError):
                self._ended(result)
            else:
                done(result)

        self._jobs.submit(run, ran, self._failed)


def read_part(logs: WaitingLogs, first: int, end: int, bits: BitView) -> Part:
    """
    Read the rows of records that wait, and their ids, from offset `first` on: about `PART_RECORDS`, or until `end`,
    where a batch ends.

    Offsets of kept records have the highest bit, as in rows.  Waits for the disk.
    """
    is_kept = first >= KEPT
    log, mark = (logs.kept, KEPT) if is_kept else (logs.arrivals, 0)
    rows: list[bytes] = []
    ids: list[tuple[int, bytes]] = []
    for position, batch in positioned_batches(log, first - mark, end - mark):
        base_offset = read_header(batch).base_offset
        found = arrivals_in(batch, base_offset, position, log.topic_id)
        base, count = mark + base_offset, found.record_count
        skipped = max(first - base, 0)
        every = kept_in(batch, base_offset, position) if is_kept else found.rows
        part = every[skipped * ROW_BYTES :]
        rows.append(due_scan.waiting_rows(part, bits))
        if found.timers:
            numbers = arrivals_of(every) if is_kept else range(base, base + count)
            named = [(numbers[it.at], it.timer_id) for it in found.timers if it.at >= skipped]
            ids += [(arrival, timer_id) for arrival, timer_id in named if bits.waits(arrival)]
        if base + count - first >= PART_RECORDS and base + count < end:
            return Part(base + count, b"".join(rows), ids)
    return Part(end, b"".join(rows), ids)
