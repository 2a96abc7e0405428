"""The queues on the overview: how many there are, and the few that a person should look at first.

Coordinators and leaders have to be asked for them, but the overview is open all day and renews itself every few
seconds.  So a result serves all pages until the next one is due, and a page waits only briefly for a new one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final

from anyio import CapacityLimiter, from_thread, move_on_after, to_thread

from tidemill.console import group_reader, queue_reader
from tidemill.console.cluster_reader import ClusterReader
from tidemill.console.cluster_view import ClusterView
from tidemill.console.queue_reader import Partitions
from tidemill.console.queue_view import Queue
from tidemill.model.clock import Clock

QUEUES_MAX: Final = 5  # the overview shows so many queues; the page of all queues has the others
GROUPS_MAX: Final = 50  # so many share groups are read, because each costs a request to every leader
PROBLEMS_MAX: Final = 3  # so many problems are shown, because a broker that is down may cause several

WAIT_S: Final = 0.5  # a page waits so long for a result, and shows the last one if it does not come
SHOWN_MS: Final = 30_000  # an older result says nothing about the present
PAUSE_MS_MIN: Final = 5_000
PAUSE_MS_MAX: Final = 15_000
PAUSE_FACTOR: Final = 10  # the pause is so many times as long as the last read, so a large cluster is read less often


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSummary:
    count: int
    first: Sequence[Queue]  # those that need attention, then those with the most available records
    problems: Sequence[str]


NOT_READ: Final = QueueSummary(count=0, first=(), problems=("The brokers have not answered yet.",))


def summarize(reader: ClusterReader, partitions: Partitions) -> QueueSummary:
    """Read the queues of the cluster's share groups.  `partitions` returns those of a topic."""
    rows, problems = group_reader.list_all(reader)
    groups = [row for row in rows if row.is_share]
    topics, more = queue_reader.topics(reader, groups[:GROUPS_MAX])
    queues, still_more = queue_reader.queues(reader, topics, partitions)
    all_problems = [*problems, *more, *still_more]
    if len(groups) > GROUPS_MAX:
        all_problems.insert(0, f"Only the first {GROUPS_MAX} of {len(groups):,} share groups are counted.")
    if len(all_problems) > PROBLEMS_MAX:
        all_problems[PROBLEMS_MAX:] = ["The page of all queues shows further problems."]
    return QueueSummary(
        count=len(queues), first=sorted(queues, key=_urgency, reverse=True)[:QUEUES_MAX], problems=all_problems
    )


def _urgency(queue: Queue) -> tuple[bool, int]:
    """Return a key that is larger for queues that stand still, then for full ones."""
    is_unknown = any(it.share is None for it in queue.partitions)
    stands_still = bool(is_unknown or queue.blocked_by or queue.total("archiving"))
    return stands_still, queue.total("available") or 0


class QueueSummaries:
    """The latest summary, shared by all pages."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()  # held by the thread that reads
        self._newest: tuple[int, QueueSummary] | None = None  # (when the read ended, its result)
        self._due_ms = 0  # the time from which the next read may begin

    def latest(self, view: ClusterView) -> QueueSummary:
        """Return a summary, or `NOT_READ` if none comes in time.  Call this in a worker thread of the event loop."""
        if self._is_due:
            from_thread.run(self._read_within_wait, view)
        newest = self._newest
        if newest is None or self._clock.monotonic_ms() - newest[0] > SHOWN_MS:
            return NOT_READ
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
            with ClusterReader(view.brokers()) as reader:
                summary = summarize(reader, view.partitions)
            ended_ms = self._clock.monotonic_ms()
            self._newest = ended_ms, summary
            pause_ms = PAUSE_FACTOR * (ended_ms - began_ms)
            self._due_ms = ended_ms + min(max(pause_ms, PAUSE_MS_MIN), PAUSE_MS_MAX)
        finally:
            self._lock.release()
