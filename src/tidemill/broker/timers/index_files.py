"""The files of one partition's index by due time: writes, reads, merges and removes runs, in jobs.

The files lie beside the segments of the arrivals log, those of the kept log as well.  They are never synced: what a run
lacks is read from the log again.
"""

from collections.abc import Callable, Sequence
from typing import Final

from tidemill.broker.machine import Machine
from tidemill.broker.timers.waiting_reader import WaitingLogs
from tidemill.storage.disk import Disk, DiskFull, remove_if_there
from tidemill.timer.due_merge import Merge
from tidemill.timer.due_refill import Refill
from tidemill.timer.due_row import KEPT
from tidemill.timer.due_run import MalformedRun, ReadRun, RunRead, UnwrittenRun, decode_run
from tidemill.timer.timer_partition import TimerPartition

ENDING: Final = ".due"
FLUSH_BYTES: Final = 16 << 20  # of the rows of one partition in memory: more are written to a run


class IndexFiles:
    def __init__(self, timers: TimerPartition, logs: WaitingLogs, disk: Disk, machine: Machine) -> None:
        self._timers = timers
        self.logs = logs
        self._disk = disk
        self._machine = machine
        self._is_writing = False

    # Jobs of the index, which the host begins.

    def flush_if_large(self) -> None:
        """Write rows to a run if many are in memory."""
        if self._timers.index.unsorted_bytes > FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the oldest rows in memory to a run."""
        index = self._timers.index
        run = None if self._is_writing else index.flush()
        if run is None:
            return
        self._is_writing = True
        log = self.logs.kept if run.is_kept else self.logs.arrivals
        epoch = log.epochs.span_at((run.end & ~KEPT) - 1)[0]

        def done(is_written: bool) -> None:
            self._is_writing = False
            if is_written:
                index.flushed(run)
            else:
                index.flush_failed(run)

        self._machine.background_jobs.submit(lambda: self._write(run, epoch), done, self._machine.failed)

    def _write(self, run: UnwrittenRun, epoch: int) -> bool:
        self._disk.make_directory(self.logs.arrivals.directory)
        file = self._disk.open(self._path(run.name), create=True)
        try:
            data = run.encode(epoch)
            file.write(0, [data])
            file.truncate(len(data))
        except DiskFull:
            return False
        finally:
            file.close()
        return True

    def merge(self) -> None:
        """Merge runs if there are too many, and remove files that are not needed any more."""
        index = self._timers.index
        self.remove(index.removable())
        merge = None if self._is_writing else index.merge()
        if merge is None:
            return
        self._is_writing = True

        def done(is_written: bool) -> None:
            self._is_writing = False
            if is_written:
                index.merged(merge)
            else:
                index.merge_failed(merge)

        self._machine.background_jobs.submit(lambda: self._merge(merge), done, self._machine.failed)

    def _merge(self, merge: Merge) -> bool:
        file = self._disk.open(self._path(merge.name), create=True)
        try:
            while merge.reads:
                position = merge.position
                file.write(position, [merge.supply([*map(self._read, merge.reads)])])
            if not merge.unreadable:
                file.write(0, [merge.head()])
        except DiskFull:
            return False
        finally:
            file.close()
        return True

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

    def remove(self, names: Sequence[str]) -> None:
        """Remove files that are not needed any more."""
        if not names:
            return

        def remove() -> None:
            for name in names:
                remove_if_there(self._disk, self._path(name))

        self._machine.background_jobs.submit(remove, lambda _: None, self._machine.failed)

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
