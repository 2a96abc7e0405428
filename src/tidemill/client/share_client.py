"""Receives and resolves records of share groups without a share session, and describes shares.

The requests are Tidemill's own; a broker of Apache Kafka closes the connection.  Every request may be repeated: a
consumer that asks again gets what it holds already, and what is finished stays finished.  So this client retries after
lost connections and leader changes, until a deadline.
"""

import time
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple

from tidemill.batches.batch import BatchHeader, spans
from tidemill.batches.records import OFFSET_MAX, Record, RecordBlock, open_block
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.leader_requests import LeaderRequests, RequestRefused
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId
from tidemill.peer import share_describe, share_receive, share_resolve
from tidemill.share.acknowledgement import Acknowledgement as Acknowledgement  # callers name it, too

OPERATOR: Final = ""  # the name of an operator, who resolves records that no consumer holds
_WAIT_MS_MAX: Final = 5_000  # of one request, so that a leader change is noticed during a longer wait


class ShareRefused(RequestRefused):
    """A broker refuses a request, such as for a group of another type."""


class Acquired(NamedTuple):
    """The offsets from `first` to `last`, both included, that the consumer holds."""

    first: int
    last: int
    delivery_count: int  # including this delivery


_last_of = attrgetter("last")


class Delivery(NamedTuple):
    """A record that the consumer holds."""

    record: Record
    delivery_count: int
    is_log_append_time: bool  # whether the record's timestamp is that of the append


@dataclass(frozen=True, slots=True)
class Received:
    """What a consumer holds of a partition."""

    partition: TopicPartition
    topic_id: TopicId
    acquired: Sequence[Acquired]  # ascending and disjoint
    batches: bytes  # whole record batches, ascending; they may contain records that were not acquired
    lock_ms: int  # how long the locks last from the response on
    is_exclusive: bool  # whether one member of the group at a time may acquire records of the partition
    withheld_ms: int  # how long the leader withholds available records; 0: it does not

    def deliveries(self) -> Iterator[Delivery]:
        """Decode the records that the consumer holds.  Raise ValueError for a malformed batch."""
        for position, _, header in spans(self.batches):
            if self.holds_any_of(header):
                yield from self.deliveries_of(open_block(self.batches, position))

    def holds_any_of(self, header: BatchHeader) -> bool:
        """Return whether the consumer holds an offset of a batch; others may lie between those that it holds."""
        return self.holds_any(header.base_offset, header.end_offset)

    def holds_any(self, first: int, end: int) -> bool:
        """Return whether the consumer holds an offset from `first` on, below `end`."""
        at = bisect_left(self.acquired, first, key=_last_of)
        return first < end and at < len(self.acquired) and self.acquired[at].first < end

    def deliveries_of(self, block: RecordBlock, headers_max: int = OFFSET_MAX) -> Iterator[Delivery]:
        """
        Decode the records of one batch that the consumer holds, as far as they have at most `headers_max` headers
        together with those between them.  Raise ValueError for a malformed one.
        """
        is_log_append_time = block.header.is_log_append_time
        at = bisect_left(self.acquired, block.header.base_offset, key=_last_of)
        first, last = self.acquired[0].first, self.acquired[-1].last
        for record in block.records(first=first, last=last, headers_max=headers_max):
            while self.acquired[at].last < record.offset:
                at += 1
            if self.acquired[at].first <= record.offset:
                yield Delivery(record, self.acquired[at].delivery_count, is_log_append_time)


class Resolved(NamedTuple):
    """What has become of the records in a request.  Records that the consumer no longer holds are not counted."""

    resolved: int  # records that the request has changed
    finished: int  # records that were finished, or dead, before: as well after a request that was repeated
    held: int  # records that another consumer holds


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareState:
    """How far a group has processed a partition.  `peer/share_describe` defines the numbers."""

    partition: TopicPartition
    start: int | None  # None: the group has not read the partition
    end: int
    lag: int | None
    available: int
    delayed: int
    held: int
    archiving: int
    expired_unread: int
    oldest_ms: int | None
    blocked_by: str | None


class ShareClient:
    """Sends requests over the connections of `cluster`, one at a time.  It is not thread-safe."""

    def __init__(self, cluster: ClusterMetadata, *, deadline_ms: int | None = None) -> None:
        """`deadline_ms` limits how long one call may retry, by default `default.api.timeout.ms`."""
        self._cluster = cluster
        self._leaders = LeaderRequests(cluster, serving="queues", refusal=ShareRefused, deadline_ms=deadline_ms)

    def receive(
        self, partition: TopicPartition, group: str, member: str, *, max_records: int, max_bytes: int, wait_ms: int
    ) -> Received:
        """
        Acquire available records for the consumer `member`, and wait for some for up to `wait_ms`.

        A consumer that holds records of the partition gets these again, with renewed locks, and no others.  With
        `max_records` 0, nothing is acquired.  With `max_bytes` 0, `batches` is empty.  The first request creates the
        group.  Raise ShareRefused, UnknownTopic or RetriesExhausted.
        """
        ends_at = time.monotonic() + wait_ms / 1_000
        longest_ms = min(_WAIT_MS_MAX, self._cluster.settings.request_timeout_ms // 2)
        while True:
            left_ms = max(round((ends_at - time.monotonic()) * 1_000), 0)
            received = self._receive(partition, group, member, max_records, max_bytes, min(left_ms, longest_ms))
            if received.acquired or left_ms <= longest_ms:
                return received

    def _receive(
        self, partition: TopicPartition, group: str, member: str, max_records: int, max_bytes: int, wait_ms: int
    ) -> Received:
        def request(topic_id: TopicId) -> share_receive.Request:
            return share_receive.Request(
                group_id=group,
                topic_id=topic_id,
                partition=partition.partition,
                member_id=member,
                max_records=max_records,
                max_bytes=max_bytes,
                max_wait_ms=wait_ms,
            )

        topic_id, response = self._leaders.ask(share_receive.API, partition, request, _about(group, partition.topic))
        return Received(
            partition,
            topic_id,
            [Acquired(it.first_offset, it.last_offset, it.delivery_count) for it in response.acquired],
            bytes(response.records or b""),  # a copy: the connection reuses its buffer
            response.lock_ms,
            response.is_exclusive,
            response.withheld_ms,
        )

    def resolve(
        self,
        partition: TopicPartition,
        group: str,
        member: str,
        batches: Sequence[tuple[int, int, Acknowledgement]] = (),
        *,
        held_as: Acknowledgement | None = None,
        delay_ms: int | None = None,
        topic_id: TopicId | None = None,
        is_trial: bool = False,
    ) -> Resolved:
        """
        Acknowledge records, given as (first offset, last offset, type) in ascending order.

        A consumer resolves what it holds, and with `held_as` all other records that it holds.  OPERATOR resolves what
        no consumer holds; in a trial, the broker counts these records and changes nothing.  `delay_ms` is the time
        until released records are available again; None: as the group's back-off says.  If `topic_id` is given, the
        topic must still have that id.  Raise ShareRefused, TopicRecreated, UnknownTopic or RetriesExhausted.
        """
        listed = [
            share_resolve.Request.Batch(first_offset=first, last_offset=last, acknowledge_types=[kind])
            for first, last, kind in batches
        ]

        def request(topic_id: TopicId) -> share_resolve.Request:
            return share_resolve.Request(
                group_id=group,
                topic_id=topic_id,
                partition=partition.partition,
                member_id=member,
                batches=listed,
                held_as=share_resolve.NOT_LISTED if held_as is None else held_as,
                delay_ms=share_resolve.BY_POLICY if delay_ms is None else delay_ms,
                is_trial=is_trial,
            )

        about = _about(group, partition.topic)
        _, response = self._leaders.ask(share_resolve.API, partition, request, about, topic_id)
        return Resolved(response.resolved, response.finished, response.held)

    def describe(self, group: str, topic: str, partitions: Collection[int] | None = None) -> list[ShareState]:
        """
        Return how far a group has processed partitions, by default all of the topic.

        Raise UnknownTopic, ShareRefused or RetriesExhausted.
        """
        self._cluster.refresh({topic})
        wanted = sorted(self._cluster.partitions(topic) if partitions is None else set(partitions))
        found: dict[int, ShareState] = {}

        def ask() -> None:
            by_leader: dict[int, list[TopicPartition]] = {}
            for number in wanted:
                if number not in found:
                    one = TopicPartition(topic, number)
                    by_leader.setdefault(self._leaders.leader(one).broker_id, []).append(one)
            for broker_id, asked in by_leader.items():
                self._describe(broker_id, group, asked, found)

        self._leaders.retried(topic, ask, _about(group, topic))
        return [found[number] for number in wanted]

    def _describe(
        self, broker_id: int, group: str, asked: Sequence[TopicPartition], found: dict[int, ShareState]
    ) -> None:
        topic = asked[0].topic
        topic_id, about = self._leaders.topic_id(topic), _about(group, topic)
        request = share_describe.Request(
            group_id=group,
            partitions=[share_describe.Request.Partition(topic_id=topic_id, partition=it.partition) for it in asked],
        )
        response = self._leaders.ask_broker(broker_id, share_describe.API, request, about)
        for partition, share in zip(asked, response.shares, strict=True):
            if not share.error_code:
                found[partition.partition] = _state(partition, share)
        for share in response.shares:
            self._leaders.check(share.error_code, None, about)


def _about(group: str, topic: str) -> str:
    return f"group {group!r}, topic {topic!r}"


def _state(partition: TopicPartition, share: share_describe.Response.Share) -> ShareState:
    return ShareState(
        partition=partition,
        start=None if share.start < 0 else share.start,
        end=share.end,
        lag=None if share.lag < 0 else share.lag,
        available=share.available,
        delayed=share.delayed,
        held=share.held,
        archiving=share.archiving,
        expired_unread=share.expired_unread,
        oldest_ms=None if share.oldest_ms < 0 else share.oldest_ms,
        blocked_by=share.blocked_by,
    )
