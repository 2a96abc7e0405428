"""What happens to the records of timer topics.

Each partition that a broker leads holds its topic's counters, so counting needs no lookup.  As with `topic_counters`,
the number of topics with counters of their own is bounded, and further topics share one object.
"""

from collections.abc import Collection

from tidemill.telemetry.histogram import LATENESS_BOUNDS_MS, Histogram
from tidemill.telemetry.topic_counters import OTHER


class TimerCounters:
    """Counts the records of one timer topic that this broker, as a leader, has released, and others that ended."""

    __slots__ = (
        "batches_refused",
        "bytes_moved",
        "lateness_seconds",
        "read_ahead_misses",
        "records_cancelled",
        "records_released",
        "records_replaced",
    )

    def __init__(self) -> None:
        self.batches_refused = 0
        self.records_released = 0
        self.records_cancelled = 0  # by requests
        self.records_replaced = 0  # replaced or cancelled by records with the same id
        self.bytes_moved = 0  # to the kept log
        self.read_ahead_misses = 0  # records whose release waited for a read
        # For each released record: the time from when it was due until its release was committed.
        self.lateness_seconds = Histogram(LATENESS_BOUNDS_MS, per_second=1_000)


class CountersByTimerTopic:
    def __init__(self, topics_max: int) -> None:
        """Give at most `topics_max` topics counters of their own."""
        self._topics_max = topics_max
        self._others = TimerCounters()
        self._by_topic: dict[str, TimerCounters] = {}

    def of(self, topic: str) -> TimerCounters:
        """Return the counters of a topic.  Each of its partitions that this broker leads keeps a reference to them."""
        counters = self._by_topic.get(topic)
        if counters is not None:
            return counters
        if len(self._by_topic) >= self._topics_max:
            return self._others
        return self._by_topic.setdefault(topic, TimerCounters())

    def keep_topics(self, topics: Collection[str]) -> None:
        """Drop the counters of topics that are not in `topics`, because they were deleted."""
        for topic in [it for it in self._by_topic if it not in topics]:
            del self._by_topic[topic]

    def rows(self) -> list[tuple[str, TimerCounters]]:
        """Return (label, counters): the topics in alphabetical order, then `OTHER`."""
        return [*sorted(self._by_topic.items()), (OTHER, self._others)]
