"""Behind a load its memory goes back to the machine, once there is little to do."""

from collections.abc import Callable
from typing import Final

from tidemill.runtime.heap import give_back_freed_memory
from tidemill.shard.jobs import Jobs
from tidemill.telemetry.metrics import Metrics

CHECK_S: Final = 2.0
QUIET_BYTES: Final = 1 << 20  # moved between two looks, at most: then it is quiet
LOAD_BYTES: Final = 16 << 20  # moved since memory was given back, at least: then there is something to give back


class QuietHeap:
    def __init__(self, metrics: Metrics, jobs: Jobs, failed: Callable[[BaseException], None]) -> None:
        """`jobs` carries it out, beside the loop."""
        self._metrics = metrics
        self._jobs = jobs
        self._failed = failed
        self._next_check_at = 0.0
        self._moved = self._given_back_at = 0

    def tick(self, now: float) -> None:
        """Called a few times a second; `now` on the loop's clock."""
        if now < self._next_check_at:
            return
        self._next_check_at = now + CHECK_S
        metrics = self._metrics
        moved = metrics.journal_bytes + metrics.bytes_received + metrics.bytes_sent
        is_quiet = moved - self._moved <= QUIET_BYTES
        self._moved = moved
        if is_quiet and moved - self._given_back_at >= LOAD_BYTES:
            self._given_back_at = moved
            self._jobs.submit(give_back_freed_memory, lambda _: None, self._failed)
