"""Memory is returned to the system after a load, and not earlier."""

from collections.abc import Callable
from typing import Any

from tidemill.app.quiet_heap import CHECK_INTERVAL_S, GROWN_BYTES_MIN, QUIET_TRAFFIC_BYTES_MAX, QuietHeap
from tidemill.telemetry.metrics import Metrics

MIB = 1 << 20


class Counted:
    """An implementation of `shard.jobs.Jobs` that counts its jobs."""

    def __init__(self) -> None:
        self.submitted = 0

    def submit(
        self, job: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[BaseException], None]
    ) -> None:
        self.submitted += 1
        done(job())


class Held(Counted):
    """Jobs that have not ended."""

    def submit(
        self, job: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[BaseException], None]
    ) -> None:
        self.submitted += 1


def fail(error: BaseException) -> None:
    raise error


def test_memory_is_returned_once_after_each_growth() -> None:
    """
    Memory is returned once after each growth.  During a load it would soon be needed again, and what is still there
    after a return is in use.
    """
    metrics, jobs, resident = Metrics(), Counted(), [100 * MIB]
    heap = QuietHeap(metrics, jobs, fail, lambda: resident[0])
    load, grown = QUIET_TRAFFIC_BYTES_MAX + 1, GROWN_BYTES_MIN
    seen = []
    for check, (traffic_bytes, more) in enumerate(
        [
            (0, 0),
            (1_000, grown - 1),
            (load, 1),  # has grown enough, but is busy
            (load, 0),
            (QUIET_TRAFFIC_BYTES_MAX, 0),  # is returned
            (0, 0),
            (0, grown - 1),
            (load, -grown),  # some was freed meanwhile
            (0, grown - 1),
            (0, 1),  # is returned
            (0, 0),
        ]
    ):
        metrics.journal_bytes += traffic_bytes
        resident[0] += more
        heap.tick(check * CHECK_INTERVAL_S)
        heap.tick(check * CHECK_INTERVAL_S + CHECK_INTERVAL_S / 2)
        seen.append(jobs.submitted)

    assert [0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2] == seen


def test_memory_that_is_being_returned_is_not_returned_again() -> None:
    jobs, resident = Held(), [100 * MIB]
    heap = QuietHeap(Metrics(), jobs, fail, lambda: resident[0])
    resident[0] += GROWN_BYTES_MIN
    for check in range(3):
        heap.tick(check * CHECK_INTERVAL_S)

    assert 1 == jobs.submitted
