"""The Jobs port, simulated: a queue of jobs that a test executes step by step.

Executing a job and reporting its result are two steps, so that a test can stop between them, when the disk has
completed the write but the event loop has not been notified yet.  `PowerLost` is raised in the caller of the step and
never reported.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_Job = tuple[Callable[[], Any], Callable[[Any], None], Callable[[BaseException], None]]


class SimulatedJobs:
    def __init__(self) -> None:
        self._jobs: deque[_Job] = deque()
        self._reports: deque[tuple[Callable[[Any], None], object]] = deque()

    @property
    def unreported(self) -> int:
        return len(self._jobs) + len(self._reports)

    def submit(self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[BaseException], None]) -> None:
        self._jobs.append((job, done, failed))

    def execute(self) -> bool:
        """Run the next job without reporting it.  Return False if there is none."""
        if not self._jobs:
            return False
        job, done, failed = self._jobs.popleft()
        try:
            result = job()
        except Exception as error:
            self._reports.append((failed, error))
        else:
            self._reports.append((done, result))
        return True

    def report(self) -> bool:
        """Deliver the oldest report.  Return False if there is none."""
        if not self._reports:
            return False
        callback, value = self._reports.popleft()
        callback(value)
        return True

    def step(self) -> bool:
        """Deliver the oldest report, or else run the next job and report it.  Return False if there is neither."""
        if self._reports:
            return self.report()
        return self.execute() and self.report()

    def stabilize(self, steps_max: int = 100_000) -> None:
        """Step until no job or report is left, including jobs that reports submit."""
        for _ in range(steps_max):
            if not self.step():
                return
        raise AssertionError(f"jobs still submit jobs after {steps_max} steps")
