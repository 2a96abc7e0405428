"""Receives and resolves records of share groups without a share session, and describes shares.

The requests are Tidemill's own; a broker of Apache Kafka closes the connection.  Every request may be repeated: a
consumer that asks again gets what it holds already, and what is finished stays finished.  So this client retries after
lost connections and leader changes, until a deadline.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from tidemill.batches.batch import spans
from tidemill.batches.records import Record, read_records
from tidemill.client.cluster_metadata import ClusterMetadata, Leader, LeaderUnknown
from tidemill.client.failures import BrokerUnreachable, ClientError, RetriesExhausted, TopicRecreated, UnknownTopic
from tidemill.client.offset_lookup import LEADER_MOVED
from tidemill.model import errors
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId
from tidemill.peer import share_describe, share_receive, share_resolve
from tidemill.share.acknowledgement import Acknowledgement as Acknowledgement  # callers name it, too
from tidemill.wire.schema import Api, Message

OPERATOR: Final = ""  # the name of an operator, who resolves records that no consumer holds
_Answer = TypeVar("_Answer")
_VERSION: Final = 0  # ApiVersions does not list these requests
_WAIT_MS_MAX: Final = 5_000  # of one request, so that a leader change is noticed during a longer wait

_RETRIABLE: Final = LEADER_MOVED | {
    errors.COORDINATOR_NOT_AVAILABLE,
    errors.COORDINATOR_LOAD_IN_PROGRESS,
    errors.NOT_COORDINATOR,
    errors.UNKNOWN_TOPIC_ID,  # a broker may not know a new topic yet; metadata says whether a topic was deleted
}


class ShareRefused(ClientError):
    """A broker refuses a request, such as for a group of another type.  `name` is Kafka's name of the error."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class _Retried(ClientError):
    """The request is sent again after a pause, with new metadata."""


class Acquired(NamedTuple):
    """The offsets from `first` to `last`, both included, that the consumer holds."""

    first: int
    last: int
    delivery_count: int  # including this delivery


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
        ranges = iter(self.acquired)
        current = next(ranges, None)
        if current is None:
            return
        first, last = current.first, self.acquired[-1].last
        for position, _, header in spans(self.batches):
            for record in read_records(self.batches, position, first=first, last=last):
                while current is not None and current.last < record.offset:
                    current = next(ranges, None)
                if current is None:
                    return
                if current.first <= record.offset:
                    stamped = record._replace(timestamp=header.max_timestamp) if header.is_log_append_time else record
                    yield Delivery(stamped, current.delivery_count, header.is_log_append_time)


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
        self._deadline_ms = deadline_ms

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

        topic_id, response = self._ask_leader(share_receive.API, partition, group, request)
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

        _, response = self._ask_leader(share_resolve.API, partition, group, request, topic_id)
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
                    by_leader.setdefault(self._leader(one).broker_id, []).append(one)
            for broker_id, asked in by_leader.items():
                self._describe(broker_id, group, asked, found)

        self._retried(topic, group, ask)
        return [found[number] for number in wanted]

    def _describe(
        self, broker_id: int, group: str, asked: Sequence[TopicPartition], found: dict[int, ShareState]
    ) -> None:
        topic_id = self._topic_id(asked[0].topic, None)
        request = share_describe.Request(
            group_id=group,
            partitions=[share_describe.Request.Partition(topic_id=topic_id, partition=it.partition) for it in asked],
        )
        response = self._cluster.connection_to(broker_id).request(share_describe.API, request, version=_VERSION)
        _check(response.error_code, response.error_message, group)
        for partition, share in zip(asked, response.shares, strict=True):
            if not share.error_code:
                found[partition.partition] = _state(partition, share)
        for share in response.shares:
            _check(share.error_code, None, group)

    def _ask_leader(
        self,
        api: Api,
        partition: TopicPartition,
        group: str,
        request: Callable[[TopicId], Message],
        topic_id: TopicId | None = None,
    ) -> tuple[TopicId, Any]:
        """Send a request to the partition's leader, and return the topic's id and the response."""

        def ask() -> tuple[TopicId, Any]:
            leader = self._leader(partition)
            current = self._topic_id(partition.topic, topic_id)
            connection = self._cluster.connection_to(leader.broker_id)
            response = connection.request(api, request(current), version=_VERSION)
            _check(response.error_code, response.error_message, group)
            return current, response

        return self._retried(partition.topic, group, ask)

    def _retried(self, topic: str, group: str, ask: Callable[[], _Answer]) -> _Answer:
        """Call `ask` until it succeeds.  After a failure that may pass, refresh the metadata."""
        back_off = self._cluster.back_off(self._deadline_ms)
        while True:
            try:
                return ask()
            except (BrokerUnreachable, LeaderUnknown, _Retried) as error:
                failure = error
            try:
                back_off.pause(failure)
            except RetriesExhausted as exhausted:
                hint = ""
                if isinstance(failure, BrokerUnreachable):
                    hint = "; the request needs a Tidemill broker that serves queues"
                raise RetriesExhausted(f"group {group!r}, topic {topic!r}: {exhausted}{hint}") from failure
            self._cluster.refresh({topic})

    def _leader(self, partition: TopicPartition) -> Leader:
        """Return the leader.  Refresh the metadata for a partition that they do not have."""
        try:
            return self._cluster.leader(partition)
        except UnknownTopic:
            self._cluster.refresh({partition.topic})
            return self._cluster.leader(partition)

    def _topic_id(self, topic: str, wanted: TopicId | None) -> TopicId:
        current = self._cluster.topic_id(topic)
        if current is None:
            raise UnknownTopic(topic, "its broker sends no topic id; use Tidemill brokers")
        if wanted is not None and current != wanted:
            raise TopicRecreated(topic, "it was deleted and created again since its records were received")
        return current


def _check(code: int, message: str | None, group: str) -> None:
    """Raise an error unless the code is NONE."""
    if code == errors.NONE:
        return
    text = message or f"group {group!r}: the broker responds with {errors.name(code)}"
    if code in _RETRIABLE:
        raise _Retried(text)
    raise ShareRefused(errors.name(code), text)


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
