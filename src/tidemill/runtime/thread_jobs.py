"""Worker threads that take jobs from a queue of their own and report results to the event loop.

They use a `SimpleQueue` instead of the loop's executor because it is faster: it creates no Future and wakes only one
thread.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, TypeVar

T = TypeVar("T")

JOBS_MAX: Final = 10_000
"""The limit of jobs in flight.  Callers bound their own windows far below, so reaching it is a bug and asserted."""

_Job = tuple[Callable[[], Any], Callable[[Any], None], Callable[[BaseException], None]]


class ThreadJobs:
    def __init__(self, loop: asyncio.AbstractEventLoop, *, name: str, threads: int = 1) -> None:
        """Start the threads.  A single thread runs jobs in the order of submission; several threads do not."""
        self._loop = loop
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._unreported = 0
        self._stopped = False
        # Daemons: after a failed sync the process must exit at once, even if a thread waits for a hanging disk.
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True) for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def unreported(self) -> int:
        """The number of submitted jobs whose `done` or `failed` has not been called yet."""
        return self._unreported

    def submit(self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[BaseException], None]) -> None:
        """Queue a job.  Must be called on the loop; `done` or `failed` is called on the loop, too."""
        assert not self._stopped, "a job was submitted after the stop"
        assert self._unreported < JOBS_MAX, f"{JOBS_MAX} jobs are in flight; a caller does not bound its window"
        self._unreported += 1
        self._queue.put((job, done, failed))

    def stop(self) -> None:
        """Run all submitted jobs and end the threads.  Blocks the caller; later results are not reported."""
        if self._stopped:
            return
        self._stopped = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        report = self._loop.call_soon_threadsafe
        while (taken := self._queue.get()) is not None:
            job, done, failed = taken
            try:
                result = job()
            except BaseException as error:  # any error must be reported to the loop: nothing else handles it
                report(self._report, failed, error)
            else:
                report(self._report, done, result)
                del result
            del taken, job, done, failed  # an idle thread must not keep a batch in memory

    def _report(self, callback: Callable[[Any], None], value: object) -> None:
        self._unreported -= 1
        if not self._stopped:
            callback(value)
