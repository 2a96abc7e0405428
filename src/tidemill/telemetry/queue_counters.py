"""What happens to the records of queues: a queue is a share group's use of a topic.

Each share that a broker leads holds its queue's counters, so counting is one addition per range of records, without a
lookup.  As with topics, the number of queues with counters of their own is bounded, and further queues share one
object.
"""

from collections.abc import Collection
from typing import Final

from tidemill.telemetry.topic_counters import OTHER

OTHER_QUEUE: Final = (OTHER, OTHER)


class QueueCounters:
    """Counts the records of one queue that this broker, as a leader, has delivered, and what followed."""

    __slots__ = (
        "locks_expired",
        "records_accepted",
        "records_acquired",
        "records_archived",
        "records_redelivered",
        "records_rejected",
        "records_released",
    )

    def __init__(self) -> None:
        self.records_acquired = 0
        self.records_redelivered = 0  # acquired for the second time or later; also in `records_acquired`
        self.records_accepted = 0
        self.records_released = 0
        self.records_rejected = 0
        self.locks_expired = 0  # records whose consumer did not acknowledge them in time
        self.records_archived = 0  # dead records: rejected, delivered too often, or too old


class CountersByQueue:
    def __init__(self, queues_max: int) -> None:
        """Give at most `queues_max` queues counters of their own."""
        self._queues_max = queues_max
        self._others = QueueCounters()
        self._by_queue: dict[tuple[str, str], QueueCounters] = {}

    def of(self, group: str, topic: str) -> QueueCounters:
        """Return the counters of a queue.  Each share that this broker leads keeps a reference to them."""
        counters = self._by_queue.get((group, topic))
        if counters is not None:
            return counters
        if len(self._by_queue) >= self._queues_max:
            return self._others
        return self._by_queue.setdefault((group, topic), QueueCounters())

    def forget(self, group: str, topic: str) -> None:
        """Drop the counters of a deleted queue.  The next new queue may have counters of its own instead."""
        self._by_queue.pop((group, topic), None)

    def keep_topics(self, topics: Collection[str]) -> None:
        """Drop the counters of queues whose topic is not in `topics`."""
        for group, topic in [queue for queue in self._by_queue if queue[1] not in topics]:
            self.forget(group, topic)

    def rows(self) -> list[tuple[tuple[str, str], QueueCounters]]:
        """Return ((group, topic), counters): the queues in alphabetical order, then `OTHER_QUEUE`."""
        return [*sorted(self._by_queue.items()), (OTHER_QUEUE, self._others)]
