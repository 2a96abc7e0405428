"""`/v1/queues/{topic}/{group}`: receive records of a share group, and acknowledge them by receipts.

A consumer is a name in the request: there is no membership and no session, and nothing but time ends a lease.  Kafka's
share consumers of the same group get other records of the same partitions.

receive ─▶ the partitions led here, without waiting ─▶ all partitions at once ─▶ the first records; the rest is undone
ack, …  ─▶ the receipts of a partition go to its leader ─▶ an outcome for each
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from tidemill.batches.batch import spans
from tidemill.batches.records import OFFSET_MAX, OPENED_HEADERS_MAX, RecordBlock, open_block
from tidemill.client.share_client import Acquired, Delivery, Received
from tidemill.http.v1.brokers import Brokers, PartitionLeader, Unreachable
from tidemill.http.v1.budgets import Exhausted, Taken, taken_by
from tidemill.http.v1.calls import Call, Refused, Route
from tidemill.http.v1.group_coordinators import check_not_classic
from tidemill.http.v1.kafka_errors import RETRY_AFTER_S, check, without_leader
from tidemill.http.v1.leader_requests import MOVING
from tidemill.http.v1.record_schema import (
    DECOMPRESSED_BYTES_MAX,
    Header,
    Text,
    batches_of,
    headers_of,
    size_of_record,
    text_of,
)
from tidemill.http.v1.rights import CONSUME, DESCRIBE_OFFSETS
from tidemill.http.v1.topics import topic_of
from tidemill.metadata.image import Topic
from tidemill.model import errors
from tidemill.model.back_off import DELAY_MS_MAX
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId
from tidemill.peer import share_describe, share_receipts, share_receive
from tidemill.peer.share_receipts import BY_POLICY, OF_GROUP
from tidemill.share.acknowledged_receipts import UNDO, Outcome
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.share.receipt import Receipt, decode_receipt

RECORDS_MAX: Final = 500
RECEIPTS_MAX: Final = 500
WAIT_MS_MAX: Final = 30_000
LEASE_MS_MAX: Final = (1 << 31) - 1  # in requests to leaders; groups permit less
TURN_MS: Final = 2_000  # of one request to a leader, so that a leader that moves is noticed during a longer wait
PAUSE_S: Final = 0.1  # after a round in which every leader has answered at once
OPENING_S_MAX: Final = 5.0  # the first request of a group waits so long, even if it asks for no wait
OPENING_TURN_MS: Final = 300
RESPONSE_BYTES_MAX: Final = 4 << 20
UNREADABLE_BYTES: Final = 1 << 20  # opening an unreadable batch counts as so many: few are opened at a time
PARTITIONS_ASKED_MAX: Final = 64  # at the same time, for one request
_FOLDER: Final = "/v1/queues/{topic}/{group}"
_OPENING: Final = frozenset({errors.COORDINATOR_NOT_AVAILABLE, errors.COORDINATOR_LOAD_IN_PROGRESS})
Milliseconds = Annotated[int, Meta(ge=0, le=DELAY_MS_MAX)]


class ReceiveBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    consumer: Annotated[str, Meta(min_length=1, max_length=200, description="The name of the consumer.")]
    max: Annotated[int, Meta(ge=1, le=RECORDS_MAX, description="The most messages in the response.")] = 1
    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MS_MAX, description="How long to wait for a message.")] = 0
    lease_ms: (
        Annotated[int, Meta(ge=1, le=LEASE_MS_MAX, description="How long the messages stay with the consumer.")] | None
    ) = None
    partition: Annotated[int, Meta(ge=0, description="Receive from this partition only.")] | None = None


class Message(msgspec.Struct, frozen=True):
    receipt: str
    partition: int
    offset: int
    attempt: int
    timestamp: int | None
    key: Text
    value: Text
    headers: list[Header]
    lease_until: int
    lease_ms: int  # from the response on, for clients whose clocks differ from the broker's


class Messages(msgspec.Struct, frozen=True):
    messages: list[Message]


Receipts = Annotated[list[str], Meta(min_length=1, max_length=RECEIPTS_MAX)]


class AckBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    receipts: Receipts


class NackBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    receipts: Receipts
    delay_ms: Milliseconds | None = None
    counted: Annotated[
        bool, Meta(description="False: the consumer has not begun with the messages, so the delivery does not count.")
    ] = True


class ExtendBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    receipts: Receipts
    lease_ms: Annotated[int, Meta(ge=1, le=LEASE_MS_MAX)] | None = None


class Statuses(msgspec.Struct, frozen=True):
    """One status for each receipt, in their order: ok, expired, unknown (send it again) or invalid."""

    statuses: list[str]


class Partition(msgspec.Struct, frozen=True):
    partition: int
    start: int | None
    end: int
    available: int
    delayed: int
    locked: int
    archiving: int
    expired_unread: int
    oldest_ms: int | None
    blocked_by: str | None


class Queue(msgspec.Struct, frozen=True):
    topic: str
    group: str
    partitions: list[Partition]


async def receive(call: Call) -> Messages:
    topic, taken = topic_of(call), taken_by(call.request)
    _check_partition(topic, call.body.partition)
    if call.body.wait_ms:
        asked = topic.partition_count if call.body.partition is None else 1
        taken.wait(min(asked, PARTITIONS_ASKED_MAX))
        return Messages(await receive_messages(call.brokers, topic, call.names["group"], call.body, taken))
    async with taken.budgets.receives:  # the others take turns: a thousand would ask 64,000 partitions at once
        return Messages(await receive_messages(call.brokers, topic, call.names["group"], call.body, taken))


async def receive_messages(
    brokers: Brokers, topic: Topic, group: str, body: ReceiveBody, taken: Taken
) -> list[Message]:
    """
    Return messages as soon as there are any, or none after the wait.

    Raise Refused; or Exhausted if there is no memory for the messages until they are sent, and undo their deliveries.
    """
    taken.response(0)
    found = await _Receiving(brokers, topic, group, body).messages()
    try:
        taken.response(size_of_messages(found))
    except Exhausted:
        brokers.begin(_acknowledge(brokers, group, UNDO, [it.receipt for it in found]))
        raise
    return found


def size_of_messages(messages: Iterable[Message]) -> int:
    """Return about how many bytes the messages have."""
    return sum(size_of_record(it.key, it.value, it.headers) for it in messages)


class _Receiving:
    """One receive request."""

    def __init__(self, brokers: Brokers, topic: Topic, group: str, body: ReceiveBody) -> None:
        self._brokers = brokers
        self._topic = topic
        self._group = group
        self._body = body
        self._lease = brokers.random_number()
        self._is_opening = False  # whether a leader has just begun to open the share or its batches
        self._numbers = range(topic.partition_count) if body.partition is None else [body.partition]

    async def messages(self) -> list[Message]:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._body.wait_ms / 1_000
        opened_by = loop.time() + OPENING_S_MAX
        own = [it for it in self._places() if it.leader == self._brokers.broker_id]
        for place in own:
            if found := await self._receive(place, 0):
                return found
        is_first, turn = True, 0
        while is_first or loop.time() < (max(ends_at, opened_by) if self._is_opening else ends_at):
            least_ms = OPENING_TURN_MS if self._is_opening else 0
            self._is_opening = False
            left_ms = max(round((ends_at - loop.time()) * 1_000), least_ms)
            began_at = loop.time()
            places = self._chosen(turn)
            if found := await self._receive_first(places, min(left_ms, TURN_MS)):
                return found
            is_first, turn = False, turn + 1
            if loop.time() - began_at < PAUSE_S and (self._is_opening or loop.time() < ends_at):
                await asyncio.sleep(PAUSE_S)
        if not places:  # in the last turn: leaders may be elected during the wait
            raise self._without_leader()
        return []

    def _without_leader(self) -> Refused:
        if self._body.partition is not None:
            return without_leader(self._topic, self._body.partition)
        return Refused(
            503, f"no partition of topic {self._topic.name} has a leader: try again", retry_after_s=RETRY_AFTER_S
        )

    def _places(self) -> list[PartitionLeader]:
        """Return the partitions that have leaders now.  Raise Refused if the topic was deleted."""
        places = [self._brokers.place(self._topic, number) for number in self._numbers]
        found = [place for place in places if place is not None]
        if not found and self._brokers.image.topic_by_id(TopicId(self._topic.topic_id)) is None:
            raise Refused(404, f"topic {self._topic.name} was deleted")
        return found

    def _chosen(self, turn: int) -> list[PartitionLeader]:
        """Return the partitions to ask in this turn: all that have leaders, unless there are too many."""
        places = self._places()
        first = turn * PARTITIONS_ASKED_MAX % max(len(places), 1)
        return [*places[first:], *places[:first]][:PARTITIONS_ASKED_MAX]

    async def _receive_first(self, places: Sequence[PartitionLeader], wait_ms: int) -> list[Message]:
        """Ask partitions at the same time, return the messages of the first that has any, and undo the others."""
        asked = [asyncio.ensure_future(self._receive(place, wait_ms)) for place in places]
        found: list[Message] = []
        try:
            for answered in asyncio.as_completed(asked):
                if found := await answered:
                    break
        finally:
            for one in asked:
                one.cancel()
            # Those that end with messages in this moment undo them.
            late = [it for it in await asyncio.gather(*asked, return_exceptions=True) if isinstance(it, list)]
            unwanted = [one for messages in late if messages is not found for one in messages]
            if unwanted:
                await _acknowledge(self._brokers, self._group, UNDO, [one.receipt for one in unwanted])
        return found

    async def _receive(self, place: PartitionLeader, wait_ms: int) -> list[Message]:
        body, topic_id = self._body, TopicId(self._topic.topic_id)
        request = share_receive.Request(
            group_id=self._group,
            topic_id=topic_id,
            partition=place.partition,
            member_id=body.consumer,
            max_records=body.max,
            max_bytes=RESPONSE_BYTES_MAX,
            max_wait_ms=wait_ms,
            lease=self._lease,
            lock_ms=OF_GROUP if body.lease_ms is None else body.lease_ms,
        )
        try:
            response: share_receive.Response = await self._brokers.ask(
                place.leader,
                share_receive.API,
                request,
                lambda response: self._undo_soon(place, response),
                gone_s=0.0,  # the leaders that have answered are asked again meanwhile
            )
        except Unreachable:
            return []
        self._is_opening |= response.error_code in _OPENING or response.withheld_ms == 1
        if response.error_code in MOVING:
            return []
        check(response.error_code, response.error_message, f"group {self._group}")
        received = Received(
            TopicPartition(self._topic.name, place.partition),
            topic_id,
            [Acquired(it.first_offset, it.last_offset, it.delivery_count) for it in response.acquired],
            batches_of(response.records),
            response.lock_ms,
            response.is_exclusive,
            response.withheld_ms,
        )
        return await self._decoded(received, response.term)

    async def _decoded(self, received: Received, term: int) -> list[Message]:
        """
        Return the messages of the batches that can be decoded, and reject those of the others, as Kafka's share
        consumers do: no program can read them, and each delivery would lock the readable ones, too.  Undo those that
        this response does not open, and all if this is cancelled.
        """
        number, acquired = received.partition.partition, received.acquired
        until = self._brokers.wall_ms + received.lock_ms
        try:
            async with self._brokers.decoding:
                found = await asyncio.to_thread(_opened, received, term, self._lease, until)
        except asyncio.CancelledError:
            self._decide_soon(UNDO, number, acquired, term)
            raise
        for offsets in found.unreadable:
            self._decide_soon(Acknowledgement.REJECT, number, acquired, term, within=offsets)
        self._decide_soon(UNDO, number, acquired, term, within=found.unopened)
        return found.messages

    def _undo_soon(self, place: PartitionLeader, response: share_receive.Response) -> None:
        """Undo the deliveries in a response that came after the request had ended."""
        if not response.error_code:
            acquired = [Acquired(it.first_offset, it.last_offset, it.delivery_count) for it in response.acquired]
            self._decide_soon(UNDO, place.partition, acquired, response.term)

    def _decide_soon(
        self, kind: int, number: int, acquired: Iterable[Acquired], term: int, *, within: range | None = None
    ) -> None:
        """Decide about records that this request has acquired, after its end; `within` limits their offsets."""
        topic_id = TopicId(self._topic.topic_id)
        receipts = [
            Receipt(topic_id, number, offset, term, it.delivery_count, self._lease).encode()
            for it in acquired
            for offset in range(it.first, it.last + 1)
            if within is None or offset in within
        ]
        if receipts:
            self._brokers.begin(_acknowledge(self._brokers, self._group, kind, receipts))


class _Opened(NamedTuple):
    messages: list[Message]
    unreadable: list[range]  # the offsets of batches that cannot be decoded
    unopened: range  # the offsets of batches that were not opened, because those before have enough bytes


def _opened(received: Received, term: int, lease: int, until: int) -> _Opened:
    """
    Return what a consumer has received.  At most DECOMPRESSED_BYTES_MAX decompressed bytes are returned, because a
    small response can decompress to gigabytes; and about OPENED_HEADERS_MAX headers, because an empty one takes as much
    memory as a hundred bytes.
    """
    messages: list[Message] = []
    unreadable: list[range] = []
    size = headers = 0
    for position, _, header in spans(received.batches):
        if not received.holds_any_of(header):
            continue
        if size >= DECOMPRESSED_BYTES_MAX or headers >= OPENED_HEADERS_MAX:
            return _Opened(messages, unreadable, range(header.base_offset, OFFSET_MAX))
        try:
            block = open_block(received.batches, position, DECOMPRESSED_BYTES_MAX)
            if messages and size + block.size > DECOMPRESSED_BYTES_MAX:
                return _Opened(messages, unreadable, range(header.base_offset, OFFSET_MAX))
            deliveries = [*received.deliveries_of(block, OPENED_HEADERS_MAX)]
        except ValueError:
            unreadable.append(range(header.base_offset, header.end_offset))
            size += UNREADABLE_BYTES
        else:
            messages += [_message(received, it, term, lease, until) for it in deliveries]
            size += block.size
            headers += sum(len(it.record.headers) for it in deliveries)
            end = deliveries[-1].record.offset + 1 if deliveries else header.base_offset
            if received.holds_any(end, header.end_offset) and _has_record(block, end):
                return _Opened(messages, unreadable, range(end, OFFSET_MAX))  # those behind have too many headers
    return _Opened(messages, unreadable, range(0))


def _has_record(block: RecordBlock, first: int) -> bool:
    """Return whether a batch has records from an offset on: its header may promise more than there are."""
    try:
        return bool(block.records(first=first, limit=1, headers_max=OPENED_HEADERS_MAX))
    except ValueError:
        return True  # the next response begins with it, and rejects it


def _message(received: Received, delivery: Delivery, term: int, lease: int, until: int) -> Message:
    record, attempt = delivery.record, delivery.delivery_count
    receipt = Receipt(received.topic_id, received.partition.partition, record.offset, term, attempt, lease)
    return Message(
        receipt=receipt.encode(),
        partition=receipt.partition,
        offset=record.offset,
        attempt=attempt,
        timestamp=record.timestamp if record.timestamp >= 0 else None,
        key=text_of(record.key),
        value=text_of(record.value),
        headers=headers_of(record),
        lease_until=until,
        lease_ms=received.lock_ms,
    )


async def ack(call: Call) -> Statuses:
    return await _statuses(call, Acknowledgement.ACCEPT)


async def nack(call: Call) -> Statuses:
    delay_ms = call.body.delay_ms
    if not call.body.counted:
        if delay_ms:
            raise Refused(400, f"delay_ms={delay_ms} and counted=false: messages that are not begun are not delayed")
        return await _statuses(call, UNDO)
    return await _statuses(call, Acknowledgement.RELEASE, delay_ms=BY_POLICY if delay_ms is None else delay_ms)


async def reject(call: Call) -> Statuses:
    return await _statuses(call, Acknowledgement.REJECT)


async def extend(call: Call) -> Statuses:
    lease_ms = call.body.lease_ms
    return await _statuses(call, Acknowledgement.RENEW, lock_ms=OF_GROUP if lease_ms is None else lease_ms)


async def _statuses(call: Call, kind: int, *, delay_ms: int = BY_POLICY, lock_ms: int = OF_GROUP) -> Statuses:
    topic = topic_of(call)
    receipts, group = call.body.receipts, call.names["group"]
    return Statuses(
        await _acknowledge(
            call.brokers, group, kind, receipts, topic_id=topic.topic_id, delay_ms=delay_ms, lock_ms=lock_ms
        )
    )


async def _acknowledge(
    brokers: Brokers,
    group: str,
    kind: int,
    texts: Sequence[str],
    *,
    topic_id: bytes | None = None,
    delay_ms: int = BY_POLICY,
    lock_ms: int = OF_GROUP,
) -> list[str]:
    """Send receipts to the leaders of their partitions, and return a status for each."""
    statuses = ["invalid"] * len(texts)
    by_partition: dict[tuple[TopicId, int], list[tuple[int, Receipt]]] = {}
    for at, text in enumerate(texts):
        receipt = decode_receipt(text)
        if receipt is not None and topic_id in (None, receipt.topic_id):
            by_partition.setdefault((receipt.topic_id, receipt.partition), []).append((at, receipt))

    async def send(key: tuple[TopicId, int], listed: Sequence[tuple[int, Receipt]]) -> None:
        request = share_receipts.Request(
            group_id=group,
            topic_id=key[0],
            partition=key[1],
            acknowledge_type=kind,
            deliveries=[
                share_receipts.Request.Delivery(
                    offset=it.offset, term=it.term, delivery_count=it.delivery_count, lease=it.lease
                )
                for _, it in listed
            ],
            delay_ms=delay_ms,
            lock_ms=lock_ms,
        )
        outcomes = await _outcomes(brokers, group, request)
        for (at, _), outcome in zip(listed, outcomes, strict=True):
            statuses[at] = outcome.name.lower()

    await asyncio.gather(*(send(key, listed) for key, listed in by_partition.items()))
    return statuses


async def _outcomes(brokers: Brokers, group: str, request: share_receipts.Request) -> Sequence[Outcome]:
    unknown = [Outcome.UNKNOWN] * len(request.deliveries)
    topic = brokers.image.topic_by_id(request.topic_id)
    if topic is None:
        return [Outcome.EXPIRED] * len(request.deliveries)  # the topic was deleted, and its records with it
    # This broker may not have heard of an added partition yet, while another one has delivered records of it.
    place = None if request.partition >= topic.partition_count else brokers.place(topic, request.partition)
    if place is None:
        return unknown
    try:
        response = await brokers.ask(place.leader, share_receipts.API, request)
    except Unreachable:
        return unknown
    if response.error_code in MOVING:
        return unknown
    check(response.error_code, response.error_message, f"group {group}")
    return [Outcome(it) for it in response.outcomes]


async def describe(call: Call) -> Queue:
    topic, group = topic_of(call), call.names["group"]
    by_leader: dict[int, list[PartitionLeader]] = {}
    for number in range(topic.partition_count):
        place = call.brokers.place(topic, number)
        if place is None:
            raise without_leader(topic, number)
        by_leader.setdefault(place.leader, []).append(place)

    async def ask(places: Sequence[PartitionLeader]) -> list[Partition]:
        request = share_describe.Request(
            group_id=group,
            partitions=[
                share_describe.Request.Partition(topic_id=TopicId(topic.topic_id), partition=it.partition)
                for it in places
            ],
        )
        try:
            response = await call.brokers.ask(places[0].leader, share_describe.API, request)
        except Unreachable:
            raise without_leader(topic, places[0].partition) from None
        check(response.error_code, response.error_message, f"group {group}")
        if any(it.error_code for it in response.shares):
            raise without_leader(topic, places[0].partition)
        return [_partition(place.partition, share) for place, share in zip(places, response.shares, strict=True)]

    found = await asyncio.gather(*map(ask, by_leader.values()))
    rows = sorted((row for rows in found for row in rows), key=lambda row: row.partition)
    if all(row.start is None for row in rows):  # the group has not read the topic: it may be of another type
        await check_not_classic(call.brokers, group)
    return Queue(topic.name, group, rows)


def _partition(number: int, share: Any) -> Partition:
    return Partition(
        partition=number,
        start=None if share.start < 0 else share.start,
        end=share.end,
        available=share.available,
        delayed=share.delayed,
        locked=share.held,
        archiving=share.archiving,
        expired_unread=share.expired_unread,
        oldest_ms=None if share.oldest_ms < 0 else share.oldest_ms,
        blocked_by=share.blocked_by,
    )


def _check_partition(topic: Topic, number: int | None) -> None:
    if number is not None and number >= topic.partition_count:
        raise Refused(404, f"topic {topic.name} has no partition {number}, only 0 to {topic.partition_count - 1}")


_RECEIPTS: Final = ["ASZUbz9rAkJOo36_J-f08twAAAAAAAAAAAAAAAAAAAABAAEcSTdDNOZfZg"]

ROUTES: Final = (
    Route(
        method="POST",
        path=f"{_FOLDER}/receive",
        access=CONSUME,
        handler=receive,
        body=ReceiveBody,
        example={"consumer": "worker-1", "max": 10, "wait_ms": 20_000},
        response=Messages,
        summary="Receive messages, which stay with the consumer until its lease ends.",
        gives={"receipts": "/messages/0/receipt"},
    ),
    Route(
        method="POST",
        path=f"{_FOLDER}/ack",
        access=CONSUME,
        handler=ack,
        body=AckBody,
        example={"receipts": _RECEIPTS},
        response=Statuses,
        summary="Finish messages.",
    ),
    Route(
        method="POST",
        path=f"{_FOLDER}/nack",
        access=CONSUME,
        handler=nack,
        body=NackBody,
        example={"receipts": _RECEIPTS, "delay_ms": 60_000},
        response=Statuses,
        summary="Give messages back, to be delivered again.",
    ),
    Route(
        method="POST",
        path=f"{_FOLDER}/reject",
        access=CONSUME,
        handler=reject,
        body=AckBody,
        example={"receipts": _RECEIPTS},
        response=Statuses,
        summary="Finish messages without success: they become dead letters, if the group has a topic for them.",
    ),
    Route(
        method="POST",
        path=f"{_FOLDER}/extend",
        access=CONSUME,
        handler=extend,
        body=ExtendBody,
        example={"receipts": _RECEIPTS, "lease_ms": 30_000},
        response=Statuses,
        summary="Begin leases anew.",
    ),
    Route(
        method="GET",
        path=_FOLDER,
        access=DESCRIBE_OFFSETS,
        handler=describe,
        response=Queue,
        summary="Show how far the group has processed each partition.",
    ),
)
