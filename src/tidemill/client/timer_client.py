"""Lists, cancels and reschedules records that wait in a timer topic.

The requests are Tidemill's own.  Every one but a shift may be repeated: what was cancelled stays so.  So this client
retries after lost connections and leader changes, until a deadline; the outcome is that of the last try.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from tidemill.client.cluster_metadata import ClusterMetadata, LeaderUnknown
from tidemill.client.leader_requests import LeaderRequests
from tidemill.client.timer_choice import (
    Change,
    DueOrder,
    Listed,
    Outcome,
    Page,
    PartitionTimers,
    TimerChoice,
    list_request,
    merged,
    outcome_of,
    page_of,
    resolve_request,
    timers_of,
)
from tidemill.model.partition import TopicPartition
from tidemill.peer import timer_list, timer_resolve

PAGE_RECORDS_MAX: Final = 1_000  # a leader returns no more in a response
_ALL: Final = TimerChoice()


class TimerClient:
    """
    Sends requests over the connections of `cluster`, one at a time.  It is not thread-safe.  Every method raises
    RequestRefused, such as for a topic of another kind, UnknownTopic or RetriesExhausted; a shift also OutcomeUnknown.
    """

    def __init__(self, cluster: ClusterMetadata, *, deadline_ms: int | None = None) -> None:
        """`deadline_ms` limits how long one request may be retried, by default `default.api.timeout.ms`."""
        self._cluster = cluster
        self._leaders = LeaderRequests(cluster, serving="timer topics", deadline_ms=deadline_ms)

    def stats(self, topic: str, partition: int | None = None) -> list[PartitionTimers]:
        """Return how much waits in each partition of a topic, or in one."""
        chosen = TimerChoice(partition=partition)
        return [timers_of(number, self._list(topic, number, _ALL)) for number in self._partitions(topic, chosen)]

    def histogram(self, topic: str, edges_ms: Sequence[int], choice: TimerChoice = _ALL) -> list[int]:
        """
        Count the chosen records: those due before the first of the ascending edges, from each edge to the next, and
        from the last one on.
        """
        counts = [0] * (len(edges_ms) + 1)
        for number in self._partitions(topic, choice):
            response = self._list(topic, number, choice, edges_ms=edges_ms)
            counts = [sum(pair) for pair in zip(counts, response.counts, strict=True)]
        return counts

    def page(
        self,
        topic: str,
        choice: TimerChoice = _ALL,
        *,
        count_max: int,
        after: DueOrder | None = None,
        has_values: bool = False,
    ) -> Page:
        """
        Return the chosen records behind `after`, in the order of due time, partition and arrival: at most `count_max`,
        and as many as leaders put into one response.
        """
        found = Page((), has_more=False)
        for number in self._partitions(topic, choice):
            response = self._list(topic, number, choice, count_max=count_max, after=after, has_values=has_values)
            found = merged((found, page_of(number, response)), count_max)
        return found

    def records(
        self, topic: str, choice: TimerChoice = _ALL, *, count_max: int | None = None, has_values: bool = False
    ) -> Iterator[Listed]:
        """Yield the chosen records in the order of due time, partition and arrival, at most `count_max`."""
        after, left = None, sys.maxsize if count_max is None else count_max
        while left > 0:
            size = min(left, PAGE_RECORDS_MAX)
            page = self.page(topic, choice, count_max=size, after=after, has_values=has_values)
            yield from page.records
            left, after = left - len(page.records), page.next
            if after is None:
                return

    def resolve(self, topic: str, choice: TimerChoice, change: Change, *, is_trial: bool = False) -> Outcome:
        """Cancel or reschedule the chosen records.  In a trial, count them and change nothing."""
        asked = self._partitions(topic, choice)
        if not change.is_repeatable and not is_trial and len(asked) > 1:
            for number in asked:
                self._resolve(topic, number, choice, change, is_trial=True)
        responses = [self._resolve(topic, number, choice, change, is_trial=is_trial) for number in asked]
        return outcome_of(responses, choice, asked)

    def _resolve(
        self, topic: str, partition: int, choice: TimerChoice, change: Change, *, is_trial: bool
    ) -> timer_resolve.Response:
        now = change.at(self._limit_ms(topic, partition)) if change.is_delay else change
        _, response = self._leaders.ask(
            timer_resolve.API,
            TopicPartition(topic, partition),
            lambda topic_id: resolve_request(topic_id, partition, choice, now, is_trial=is_trial),
            _about(topic),
            is_repeatable=is_trial or change.is_repeatable,
        )
        found: timer_resolve.Response = response
        return found

    def _limit_ms(self, topic: str, partition: int) -> int:
        """Return the time by the release clock of a partition."""

        def ask() -> int:
            found = timers_of(partition, self._list(topic, partition, _ALL)).limit_ms
            if found is None:
                raise LeaderUnknown(f"the release clock of partition {partition} is not known yet")
            return found

        return self._leaders.retried(topic, ask, _about(topic))

    def _list(
        self,
        topic: str,
        partition: int,
        choice: TimerChoice,
        *,
        count_max: int = 0,
        after: DueOrder | None = None,
        has_values: bool = False,
        edges_ms: Sequence[int] = (),
    ) -> timer_list.Response:
        _, response = self._leaders.ask(
            timer_list.API,
            TopicPartition(topic, partition),
            lambda topic_id: list_request(
                topic_id,
                partition,
                choice,
                count_max=count_max,
                after=after,
                has_values=has_values,
                edges_ms=edges_ms,
            ),
            _about(topic),
        )
        found: timer_list.Response = response
        return found

    def _partitions(self, topic: str, choice: TimerChoice) -> list[int]:
        """Return the partitions to ask, with new metadata: partitions may have been added."""
        self._cluster.refresh({topic})
        return choice.partitions(self._cluster.partitions(topic))


def _about(topic: str) -> str:
    return f"topic {topic!r}"
