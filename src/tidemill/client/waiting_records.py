"""Reads all records that wait in a partition of a timer topic, in the order of arrival."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.leader_requests import LeaderRequests
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId
from tidemill.peer import timer_list
from tidemill.peer.timer_list import Response

WaitingRecord = Response.Record
PAGE_RECORDS_MAX: Final = 1_000  # a leader returns no more in a response, and no more than about 4 MiB


class WaitingRecords:
    """
    Asks the leaders of partitions over the connections of `cluster`, one at a time.  It is not thread-safe.

    Every method raises RequestRefused, such as for a topic of another kind, UnknownTopic or RetriesExhausted.
    """

    def __init__(self, cluster: ClusterMetadata, *, deadline_ms: int | None = None) -> None:
        """`deadline_ms` limits how long one request may be retried, by default `default.api.timeout.ms`."""
        self._leaders = LeaderRequests(cluster, serving="timer topics", deadline_ms=deadline_ms)

    def pages(
        self, partition: TopicPartition, topic_id: TopicId | None = None, *, has_values: bool
    ) -> Iterator[Sequence[WaitingRecord]]:
        """
        Yield the records that wait, each once, without those that arrive after the first page was read.

        Each page is what waits when the page is read: a record that is released or cancelled before its page is read is
        missing.  Without `has_values`, all values are None.  If `topic_id` is given, the topic must still have that id.
        """
        after, end = -1, None
        while True:
            response = self._list(partition, topic_id, after=after, count_max=PAGE_RECORDS_MAX, has_values=has_values)
            end = response.end if end is None else end
            old = [it for it in response.records if it.arrival < end]
            if old:
                yield old
            if not response.has_more or len(old) < len(response.records):
                return
            after = old[-1].arrival

    def arrival_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the next arrival number of each partition: so many records have been written to it."""
        return {it: self._list(it, None).end for it in partitions}

    def _list(
        self,
        partition: TopicPartition,
        topic_id: TopicId | None,
        *,
        after: int = -1,
        count_max: int = 0,
        has_values: bool = False,
    ) -> Response:
        def request(current: TopicId) -> timer_list.Request:
            return timer_list.Request(
                topic_id=current,
                partition=partition.partition,
                is_by_arrival=True,
                after_arrival=after,
                max_records=count_max,
                has_values=has_values,
            )

        _, found = self._leaders.ask(timer_list.API, partition, request, f"topic {partition.topic!r}", topic_id)
        response: Response = found
        return response
