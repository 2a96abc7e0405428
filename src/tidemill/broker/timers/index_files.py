"""The files of one partition's index by due time: writes, reads, merges and removes runs, in jobs.

The files lie beside the segments of the arrivals log, those of the kept log as well.  They are never synced: what a run
lacks is read from the log again.

A write or a removal that fails costs nothing but memory or space: rows stay in memory, runs stay apart, and files stay
where they are, until a later try.
"""

from collections.abc import Callable, Iterable
from typing import Final

from tidemill.broker.machine import Machine
from tidemill.broker.repeated_events import RepeatedEvents
from tidemill.broker.timers.waiting_reader import WaitingLogs
from tidemill.storage.disk import Disk, DiskFull, remove_if_there
from tidemill.telemetry.event_log import Field
from tidemill.timer.due_merge import Merge
from tidemill.timer.due_refill import Refill
from tidemill.timer.due_row import KEPT
from tidemill.timer.due_run import MalformedRun, ReadRun, RunRead, UnwrittenRun, decode_run
from tidemill.timer.timer_partition import TimerPartition

ENDING: Final = ".due"
FLUSH_BYTES: Final = 16 << 20  # of the rows of one partition in memory: more are written to a run
RETRY_MS: Final = 10_000  # after a write or a removal that has failed


class IndexFiles:
    def __init__(
        self, timers: TimerPartition, logs: WaitingLogs, disk: Disk, machine: Machine, failures: RepeatedEvents
    ) -> None:
        """`failures` collapses the log events of all partitions: a full disk fails the writes of all of them."""
        self._timers = timers
        self.logs = logs
        self._disk = disk
        self._machine = machine
        self._failures = failures
        self._is_writing = False
        self._is_removing = False
        self._failed_at: int | None = None  # monotonic ms of the last write or removal that has failed
        self._unneeded: dict[str, None] = {}  # the names of files to remove
        self._is_searched = False  # whether files of an earlier process are known

    # Jobs of the index, which the host begins.

    def flush_if_large(self) -> None:
        """Write rows to a run if many are in memory."""
        if self._timers.index.unsorted_bytes > FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the oldest rows in memory to a run."""
        index = self._timers.index
        run = None if self._is_writing or self._is_pausing else index.flush()
        if run is None:
            return
        self._is_writing = True
        log = self.logs.kept if run.is_kept else self.logs.arrivals
        epoch = log.epochs.span_at((run.end & ~KEPT) - 1)[0]

        def done(problem: OSError | None) -> None:
            self._is_writing = False
            if problem is None:
                index.flushed(run)
            else:
                index.flush_failed(run)
                self._failed(run.name, problem, "the rows stay in memory")

        self._submit(lambda: self._write(run, epoch), done)

    def _write(self, run: UnwrittenRun, epoch: int) -> None:
        self._disk.make_directory(self.logs.arrivals.directory)
        file = self._disk.open(self._path(run.name), create=True)
        try:
            data = run.encode(epoch)
            file.write(0, [data])
            file.truncate(len(data))
        finally:
            file.close()

    def merge(self) -> None:
        """Merge runs if there are too many, and remove files that are not needed any more."""
        index = self._timers.index
        self.remove(index.removable())
        merge = None if self._is_writing or self._is_pausing else index.merge()
        if merge is None:
            return
        self._is_writing = True

        def done(problem: OSError | None) -> None:
            self._is_writing = False
            if problem is None:
                index.merged(merge)
            else:
                index.merge_failed(merge)
                self._failed(merge.name, problem, "files are not merged")

        self._submit(lambda: self._merge(merge), done)

    def _merge(self, merge: Merge) -> None:
        file = self._disk.open(self._path(merge.name), create=True)
        try:
            while merge.reads:
                position = merge.position
                file.write(position, [merge.supply([*map(self._read, merge.reads)])])
            if not merge.unreadable:
                file.write(0, [merge.head()])
        finally:
            file.close()

    def refill(self, refill: Refill, done: Callable[[], None]) -> None:
        """Read what the window of a leader wants next; then call `done`."""

        def read() -> None:
            refill.supply([*map(self._read, refill.reads)])

        def was_read(_: None) -> None:
            self._timers.index.refilled(refill)
            done()

        self._machine.read_jobs.submit(read, was_read, self._machine.failed)

    # Files.

    def names(self) -> list[str]:
        """Return the names of the files that are there.  Waits for the disk."""
        return [name for name in self._disk.list(self.logs.arrivals.directory) if name.endswith(ENDING)]

    def read_run(self, name: str) -> ReadRun | None:
        """
        Return a run; None if it is damaged or unreadable, or of another log than the one that is there.

        Waits for the disk.
        """
        try:
            read = decode_run(name, self._bytes(name))
        except (MalformedRun, OSError):
            return None
        log = self.logs.kept if read.run.is_kept else self.logs.arrivals
        return read if log.epochs.span_at((read.run.end & ~KEPT) - 1)[0] == read.run.epoch else None

    def remove(self, names: Iterable[str] = ()) -> None:
        """Remove files that are not needed any more, and those that could not be removed earlier."""
        self._unneeded |= dict.fromkeys(names)
        if not self._unneeded or self._is_removing or self._is_pausing:
            return
        self._is_removing = True
        # A run may have been given the name of a file that could not be removed.
        unneeded = [name for name in self._unneeded if not self._timers.index.has_run(name)]
        self._unneeded = {}

        def remove() -> None:
            while unneeded:
                remove_if_there(self._disk, self._path(unneeded[-1]))
                unneeded.pop()

        def done(problem: OSError | None) -> None:
            self._is_removing = False
            if problem is not None:
                self._unneeded |= dict.fromkeys(unneeded)
                self._failed(unneeded[-1], problem, "files that are not needed stay there")

        self._submit(remove, done)

    def remove_unknown(self) -> None:
        """
        Remove, once, the files that this index does not have: an earlier process has left them.  They are read only if
        something waits at a start or after an install.
        """
        if self._is_searched or self._is_writing or self._is_pausing:
            return
        self._is_searched = True
        found: list[str] = []

        def search() -> None:
            found.extend(self.names())

        def searched(problem: OSError | None) -> None:
            if problem is not None:
                self._is_searched = False
                self._failed("", problem, "files that are not needed stay there")
            self.remove(found)

        self._submit(search, searched)

    def _submit(self, job: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Run a job that writes or removes files, none of which it syncs.  `done` takes the error of the disk."""

        def run() -> OSError | None:
            try:
                job()
            except OSError as problem:
                return problem
            return None

        self._machine.background_jobs.submit(run, done, self._machine.failed)

    @property
    def _is_pausing(self) -> bool:
        now_ms = self._machine.clock.monotonic_ms()
        return self._failed_at is not None and now_ms - self._failed_at < RETRY_MS

    def _failed(self, name: str, problem: OSError, then: str) -> None:
        """Log a write or a removal that has failed, and pause."""
        self._failed_at = self._machine.clock.monotonic_ms()
        left_out = self._failures.occurred((problem.errno, then))
        if left_out is None:
            return
        fix = "let the user that runs the broker write into its data directory, or replace the disk"
        fields: dict[str, Field] = {"repeats_left_out": left_out} if left_out else {}
        self._machine.events.error(
            "timer index file failed",
            path=self._path(name),
            problem=str(problem),
            then=f"{then} until a later try; records are released as before",
            fix="make room on the disk" if isinstance(problem, DiskFull) else fix,
            **fields,
        )

    def _read(self, read: RunRead) -> bytes | None:
        """Return part of a run; None if it is unreadable: the log has its rows, too."""
        try:
            return self._bytes(read.name, read.position, read.size)
        except OSError:
            return None

    def _bytes(self, name: str, position: int = 0, size: int | None = None) -> bytes:
        file = self._disk.open(self._path(name))
        try:
            return file.read(position, file.size() if size is None else size)
        finally:
            file.close()

    def _path(self, name: str) -> str:
        return f"{self.logs.arrivals.directory}/{name}"
