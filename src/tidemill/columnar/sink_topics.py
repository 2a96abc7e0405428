"""The topics of a write: the number of partitions of each topic, and the largest batch that it accepts."""

import random
from array import array
from collections.abc import Callable, Collection, Sequence
from typing import Final

from tidemill.client import topic_limits
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import RetriesExhausted, UnknownTopic
from tidemill.columnar import timer_topics

_NEW_TOPIC_MS: Final = 1_000  # an Apache Kafka broker may learn of a new topic shortly after its creation


class SinkTopics:
    """
    Caches what a write knows about its topics.

    A partition count is cached until a row specifies a higher partition.
    """

    def __init__(
        self, cluster: ClusterMetadata, *, deadline_ms: int, random_below: Callable[[int], int] = random.randrange
    ) -> None:
        """`deadline_ms` limits how long a look-up waits for unavailable brokers and for leader elections."""
        self._cluster = cluster
        self._deadline_ms = deadline_ms
        self._random_below = random_below
        self._counts: dict[str, int] = {}
        self._limits: dict[str, int] = {}
        self._sticky: dict[str, tuple[int, int]] = {}  # partition, and the bytes sent to it
        self._timers: set[str] = set()  # topics that are known to be of kind timer

    def reach(self) -> None:
        """Wait until a broker responds.  Raise ClientError."""
        self._cluster.refresh((), deadline_ms=self._deadline_ms)

    def learn(self, topics: Collection[str]) -> str | None:
        """Look up topics that are not cached yet.  Return the first topic that does not exist, or None.

        Raise ClientError if a request fails.
        """
        new = [topic for topic in topics if topic not in self._counts]
        return self._look_up(new) if new else None

    def refresh(self) -> None:
        """Look up all topics again, because they may have more partitions now."""
        self._look_up(list(self._counts))

    def partition_count(self, topic: str) -> int:
        return self._counts[topic]

    def not_timer(self, topics: Collection[str]) -> tuple[str, str] | None:
        """
        Return the first topic that is not of kind timer, and a text that says so and the fix; None if all are.

        Raise ClientError if a request fails.
        """
        new = [topic for topic in topics if topic not in self._timers]
        problem = timer_topics.first_problem(self._cluster, new, deadline_ms=self._deadline_ms) if new else None
        if problem is None:
            self._timers.update(new)
        return problem

    def batch_bytes_max(self, topic: str) -> int | None:
        """Return `max.message.bytes` of the topic, or None if the broker does not report it."""
        return self._limits.get(topic)

    def sticky(self, topics: Sequence[str]) -> "array[int]":
        """
        Return the sticky partition of each topic and the bytes sent to it, in the format that `RowRouter` expects.
        """
        for topic in topics:
            if topic not in self._sticky:
                self._sticky[topic] = (self._random_below(self._counts[topic]), 0)
        return array("q", [number for topic in topics for number in self._sticky[topic]])

    def keep_sticky(self, topics: Sequence[str], sticky: "array[int]") -> None:
        """Store `sticky`, which `RowRouter` has updated, for the next rows."""
        for index, topic in enumerate(topics):
            self._sticky[topic] = (sticky[2 * index], sticky[2 * index + 1])

    def _look_up(self, topics: Sequence[str]) -> str | None:
        back_off = self._cluster.back_off(_NEW_TOPIC_MS)
        while True:
            names = [*self._counts, *(topic for topic in topics if topic not in self._counts)]
            self._cluster.refresh(names, deadline_ms=self._deadline_ms)
            try:
                self._counts |= {topic: max(self._cluster.partitions(topic)) + 1 for topic in topics}
            except UnknownTopic as error:
                try:
                    back_off.pause(error)
                except RetriesExhausted:
                    return error.topic
            else:
                self._limits |= topic_limits.batch_bytes_max(self._cluster, topics)
                return None
