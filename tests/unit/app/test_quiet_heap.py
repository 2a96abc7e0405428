"""Memory is returned after a load, and not before."""

from collections.abc import Callable
from typing import Any

from tidemill.app.quiet_heap import CHECK_S, LOAD_BYTES, QuietHeap
from tidemill.telemetry.metrics import Metrics


class Counted:
    """An implementation of `shard.jobs.Jobs` that counts the jobs."""

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
    """During a load it would be needed again at once, and after little traffic there is none to return."""
    metrics, jobs = Metrics(), Counted()
    heap = QuietHeap(metrics, jobs, fail)
    seen = []
    for check, moved in enumerate([0, 1_000, LOAD_BYTES, LOAD_BYTES, 1_000, 0, 0, LOAD_BYTES // 2, 0, LOAD_BYTES, 0]):
        metrics.journal_bytes += moved
        heap.tick(check * CHECK_S)
        heap.tick(check * CHECK_S + CHECK_S / 2)
        seen.append(jobs.submitted)

    assert [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2] == seen
