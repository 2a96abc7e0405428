"""Returns freed memory to the operating system after heavy traffic, once the broker is nearly idle."""

from collections.abc import Callable
from typing import Final

from tidemill.runtime.heap import return_freed_memory
from tidemill.shard.jobs import Jobs
from tidemill.telemetry.metrics import Metrics

CHECK_INTERVAL_S: Final = 2.0
QUIET_TRAFFIC_BYTES_MAX: Final = 1 << 20  # with at most this much traffic since the last check, the broker is quiet
LOAD_TRAFFIC_BYTES_MIN: Final = 16 << 20  # memory is returned only after this much traffic since the last return


class QuietHeap:
    def __init__(self, metrics: Metrics, jobs: Jobs, failed: Callable[[BaseException], None]) -> None:
        """
        `jobs` runs the jobs that return memory, on a thread other than the event loop's; `failed` receives their
        exceptions.
        """
        self._metrics = metrics
        self._jobs = jobs
        self._failed = failed
        self._next_check_at = 0.0
        self._traffic_bytes = self._traffic_bytes_at_return = 0

    def tick(self, now: float) -> None:
        """Return freed memory if a period of heavy traffic is over.

        The process calls this a few times a second; `now` is the time on the loop's clock.
        """
        if now < self._next_check_at:
            return
        self._next_check_at = now + CHECK_INTERVAL_S
        metrics = self._metrics
        traffic_bytes = metrics.journal_bytes + metrics.bytes_received + metrics.bytes_sent
        is_quiet = traffic_bytes - self._traffic_bytes <= QUIET_TRAFFIC_BYTES_MAX
        self._traffic_bytes = traffic_bytes
        if is_quiet and traffic_bytes - self._traffic_bytes_at_return >= LOAD_TRAFFIC_BYTES_MIN:
            self._traffic_bytes_at_return = traffic_bytes
            self._jobs.submit(return_freed_memory, lambda _: None, self._failed)
