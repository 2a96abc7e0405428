"""SharedRead: what other brokers were last asked for, shared by all pages.

The overview is open all day and renews itself every few seconds.  So a result serves all pages until the next one is
due, and a page waits only briefly for a new one.
"""

from collections.abc import Callable
from threading import Lock
from typing import Final, Generic, TypeVar

from anyio import CapacityLimiter, from_thread, move_on_after, to_thread

from tidemill.console.cluster_view import ClusterView
from tidemill.model.clock import Clock

WAIT_S: Final = 0.5  # a page waits so long for a result, and shows the last one if it does not come
SHOWN_MS: Final = 30_000  # an older result says nothing about the present
PAUSE_MS_MIN: Final = 5_000
PAUSE_MS_MAX: Final = 15_000
PAUSE_FACTOR: Final = 10  # the pause is so many times as long as the last read, so a large cluster is read less often

T = TypeVar("T")


class SharedRead(Generic[T]):
    """The latest result of a read."""

    def __init__(self, clock: Clock, read: Callable[[ClusterView], T], not_read: T) -> None:
        """`read` asks other brokers; `not_read` is shown while there is no result."""
        self._clock = clock
        self._read_once = read
        self._not_read = not_read
        self._lock = Lock()  # held by the thread that reads
        self._newest: tuple[int, T] | None = None  # (when the read ended, its result)
        self._due_ms = 0  # the time from which the next read may begin

    def latest(self, view: ClusterView) -> T:
        """Return a result, or `not_read` if none comes in time.  Call this in a worker thread of the event loop."""
        if self._is_due:
            from_thread.run(self._read_within_wait, view)
        newest = self._newest
        if newest is None or self._clock.monotonic_ms() - newest[0] > SHOWN_MS:
            return self._not_read
        return newest[1]

    @property
    def _is_due(self) -> bool:
        return self._clock.monotonic_ms() >= self._due_ms

    async def _read_within_wait(self, view: ClusterView) -> None:
        with move_on_after(WAIT_S):  # the thread goes on, and a later page shows its result
            # The thread is not one of those of the pages, which may all be waiting here.
            await to_thread.run_sync(self._read, view, abandon_on_cancel=True, limiter=CapacityLimiter(1))

    def _read(self, view: ClusterView) -> None:
        if not self._lock.acquire(timeout=WAIT_S):
            return  # another thread is still reading, and the page no longer waits
        try:
            if not self._is_due:
                return  # another thread has just read
            began_ms = self._clock.monotonic_ms()
            result = self._read_once(view)
            ended_ms = self._clock.monotonic_ms()
            self._newest = ended_ms, result
            pause_ms = PAUSE_FACTOR * (ended_ms - began_ms)
            self._due_ms = ended_ms + min(max(pause_ms, PAUSE_MS_MIN), PAUSE_MS_MAX)
        finally:
            self._lock.release()
