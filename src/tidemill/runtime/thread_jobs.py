"""Worker threads that take jobs from their own queue and report results to the event loop.

The loop's executor is not used: it creates a Future and wakes more than one thread for every job (decision 15).
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, TypeVar

T = TypeVar("T")

JOBS_MAX: Final = 10_000
"""The limit on jobs in flight.  It is asserted: every caller has a far lower bound, so reaching the limit is a bug."""

_Job = tuple[Callable[[], Any], Callable[[Any], None], Callable[[BaseException], None]]


class ThreadJobs:
    def __init__(self, loop: asyncio.AbstractEventLoop, *, name: str, threads: int = 1) -> None:
        """Start the threads.  Jobs run in the order of submission only if `threads` is 1."""
        self._loop = loop
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._unreported = 0
        self._stopped = False
        # The threads are daemons so that a process can exit while a thread waits for a disk that hangs.
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
        """Queue a job.  Must be called on the loop, which also calls `done` or `failed`."""
        assert not self._stopped, "a job was submitted after the stop"
        assert self._unreported < JOBS_MAX, f"{JOBS_MAX} jobs are in flight; a caller does not bound its window"
        self._unreported += 1
        self._queue.put((job, done, failed))

    def stop(self) -> None:
        """Run all submitted jobs and end the threads, blocking the caller.  Results are no longer reported."""
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
            except BaseException as error:  # Every error must reach the loop, because no other code handles it.
                report(self._report, failed, error)
            else:
                report(self._report, done, result)
                del result
            del taken, job, done, failed  # An idle thread must not keep a batch in memory.

    def _report(self, callback: Callable[[Any], None], value: object) -> None:
        self._unreported -= 1
        if not self._stopped:
            callback(value)
