"""Returns freed memory to the operating system after heavy traffic, once the broker is nearly idle."""

from collections.abc import Callable
from typing import Final

from tidemill.runtime.heap import resident_bytes, return_freed_memory
from tidemill.shard.jobs import Jobs
from tidemill.telemetry.metrics import Metrics

CHECK_INTERVAL_S: Final = 2.0
QUIET_TRAFFIC_BYTES_MAX: Final = 1 << 20  # with at most this much traffic since the last check, the broker is quiet
GROWN_BYTES_MIN: Final = 8 << 20  # memory is returned only if there is this much more than before


class QuietHeap:
    def __init__(
        self,
        metrics: Metrics,
        jobs: Jobs,
        failed: Callable[[BaseException], None],
        resident: Callable[[], int] = resident_bytes,
    ) -> None:
        """
        `jobs` runs the jobs that return memory, on a thread other than the event loop's; `failed` receives their
        exceptions.  `resident` returns how much memory the process has.
        """
        self._metrics = metrics
        self._jobs = jobs
        self._failed = failed
        self._resident = resident
        self._least_resident = resident()  # since the last return
        self._next_check_at = 0.0
        self._traffic_bytes = 0
        self._is_returning = False

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
        resident = self._resident()
        self._least_resident = min(self._least_resident, resident)
        if is_quiet and not self._is_returning and resident - self._least_resident >= GROWN_BYTES_MIN:
            self._is_returning = True
            self._jobs.submit(return_freed_memory, self._returned, self._failed)

    def _returned(self, _: None) -> None:
        self._is_returning = False
        self._least_resident = self._resident()
