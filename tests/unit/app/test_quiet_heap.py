"""Memory is returned to the system after a load, and not earlier."""

from collections.abc import Callable
from typing import Any

from tidemill.app.quiet_heap import CHECK_INTERVAL_S, LOAD_TRAFFIC_BYTES_MIN, QuietHeap
from tidemill.telemetry.metrics import Metrics


class Counted:
    """An implementation of `shard.jobs.Jobs` that counts its jobs."""

    def __init__(self) -> None:
        self.submitted = 0

    def submit(
        self, job: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[BaseException], None]
    ) -> None:
        self.submitted += 1
        done(job())


def fail(error: BaseException) -> None:
    raise error


def test_memory_is_returned_once_after_each_load() -> None:
    """Memory is returned once after each load.  During a load it would soon be needed again, and after little traffic
    there is none to be returned.
    """
    metrics, jobs = Metrics(), Counted()
    heap = QuietHeap(metrics, jobs, fail)
    seen = []
    for check, traffic_bytes in enumerate(
        [
            0,
            1_000,
            LOAD_TRAFFIC_BYTES_MIN,
            LOAD_TRAFFIC_BYTES_MIN,
            1_000,
            0,
            0,
            LOAD_TRAFFIC_BYTES_MIN // 2,
            0,
            LOAD_TRAFFIC_BYTES_MIN,
            0,
        ]
    ):
        metrics.journal_bytes += traffic_bytes
        heap.tick(check * CHECK_INTERVAL_S)
        heap.tick(check * CHECK_INTERVAL_S + CHECK_INTERVAL_S / 2)
        seen.append(jobs.submitted)

    assert [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2] == seen
