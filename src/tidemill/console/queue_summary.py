"""The queues on the overview: how many there are, and the few that a person should look at first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidemill.console import group_reader, queue_reader
from tidemill.console.cluster_reader import ClusterReader
from tidemill.console.cluster_view import ClusterView
from tidemill.console.queue_reader import Partitions
from tidemill.console.queue_view import Queue

QUEUES_MAX: Final = 5  # the overview shows so many queues; the page of all queues has the others
GROUPS_MAX: Final = 50  # so many share groups are read, because each costs a request to every leader
PROBLEMS_MAX: Final = 3  # so many problems are shown, because a broker that is down may cause several


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSummary:
    count: int
    first: Sequence[Queue]  # those that need attention, then those with the most available records
    problems: Sequence[str]


NOT_READ: Final = QueueSummary(count=0, first=(), problems=("The brokers have not answered yet.",))


def read(view: ClusterView) -> QueueSummary:
    """Read the queues of the cluster's share groups."""
    with ClusterReader(view.brokers()) as reader:
        return summarize(reader, view.partitions)


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
