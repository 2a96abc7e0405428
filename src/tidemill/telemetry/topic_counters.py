"""Traffic by topic.  Each partition holds its topic's counters, so counting is one addition without a lookup.

The number of topics with counters of their own is bounded, because each makes every scrape larger and slower.  Further
topics share one object, whose label no topic can have: topic names contain no parentheses.
"""

from typing import Final

OTHER: Final = "(other)"


class TopicCounters:
    """Counts what this broker, as a leader, has received and sent for one topic."""

    __slots__ = ("bytes_in", "bytes_out", "fetch_requests", "produce_requests", "records_in")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.records_in = 0
        self.bytes_out = 0
        self.produce_requests = 0
        self.fetch_requests = 0


class CountersByTopic:
    def __init__(self, topics_max: int) -> None:
        """Give at most `topics_max` topics counters of their own; with 0, `rows` returns no counters at all."""
        self._topics_max = topics_max
        self._others = TopicCounters()
        self._by_topic: dict[str, TopicCounters] = {}

    def of(self, topic: str) -> TopicCounters:
        """Return the counters of `topic`.  Each of its partitions keeps a reference to them."""
        counters = self._by_topic.get(topic)
        if counters is not None:
            return counters
        if len(self._by_topic) >= self._topics_max:
            return self._others
        return self._by_topic.setdefault(topic, TopicCounters())

    def forget(self, topic: str) -> None:
        """Drop the counters of a deleted topic.  The next new topic may have counters of its own instead."""
        self._by_topic.pop(topic, None)

    def rows(self) -> list[tuple[str, TopicCounters]]:
        """Return (label, counters): the topics in alphabetical order, then `OTHER`."""
        return [*sorted(self._by_topic.items()), (OTHER, self._others)] if self._topics_max else []
