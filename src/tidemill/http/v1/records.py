"""`/v1/topics/{topic}/records`: produce records.

A record goes to the partition that it names, or to that of its key, as Java's producer chooses it (murmur2); the
records of a request without both go to one partition together.  Each partition's leader gets the request's records in
their order, in batches, and answers when they are committed.
"""

import asyncio
import binascii
from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tidemill.batches.builder import RecordTuple, build_batch
from tidemill.batches.native import scan
from tidemill.http.v1.brokers import Brokers, Unreachable
from tidemill.http.v1.calls import Call, Operation, Refused, Route
from tidemill.http.v1.kafka_errors import RETRY_AFTER_S, without_leader
from tidemill.http.v1.topics import topic_of
from tidemill.metadata.image import Topic
from tidemill.model import errors
from tidemill.wire.messages import produce

RECORDS_MAX: Final = 10_000
BATCH_BYTES: Final = 256 << 10  # of records in a batch; a larger record is a batch of its own
TIMEOUT_MS: Final = 30_000
RETRY_S_MAX: Final = 10.0  # for how long a leader that moves is asked again: longer than most elections
PAUSE_S: Final = 0.1
ACKS_ALL: Final = -1
_MOVING: Final = frozenset({
    errors.NOT_LEADER_OR_FOLLOWER,
    errors.LEADER_NOT_AVAILABLE,
    errors.UNKNOWN_TOPIC_OR_PARTITION,
    errors.UNKNOWN_TOPIC_ID,
})  # fmt: skip
_OVERHEAD: Final = 32  # bytes of a record beside its key, value and headers, about


class Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes as base64, or a JSON value; one of the two."""

    base64: str | UnsetType = UNSET
    json: msgspec.Raw | UnsetType = UNSET


Text = str | Content | None
"""UTF-8 text, other content, or none."""


class NewRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    value: Text = None
    key: Text = None
    headers: list[tuple[str, Text]] = []
    partition: Annotated[int, Meta(ge=0)] | None = None
    timestamp: Annotated[int, Meta(ge=0, description="In ms since the epoch; the present, if absent.")] | None = None


class ProduceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    records: Annotated[list[NewRecord], Meta(min_length=1, max_length=RECORDS_MAX)]


class Written(msgspec.Struct, frozen=True):
    partition: int
    offset: int


class Produced(msgspec.Struct, frozen=True):
    """Where each record of the request is, in their order."""

    records: list[Written]


async def produce_records(call: Call) -> Produced:
    topic = topic_of(call)
    given = _encoded(call.body.records, topic, call.brokers)
    written: list[Written | None] = [None] * len(given)
    by_partition: dict[int, list[tuple[int, RecordTuple]]] = {}
    for at, (partition, record) in enumerate(given):
        by_partition.setdefault(partition, []).append((at, record))

    async def write(partition: int, records: Sequence[tuple[int, RecordTuple]]) -> Refused | None:
        try:
            for part in _parts(records):
                first = await _append(call.brokers, topic, partition, [record for _, record in part])
                for offset, (at, _) in enumerate(part, first):
                    written[at] = Written(partition, offset)
        except Refused as refused:
            return refused
        return None

    outcomes = await asyncio.gather(*(write(*one) for one in by_partition.items()))
    if problem := next((it for it in outcomes if it is not None), None):
        raise problem.with_fields(written=[None if it is None else [it.partition, it.offset] for it in written])
    return Produced([it for it in written if it is not None])


def _encoded(records: Sequence[NewRecord], topic: Topic, brokers: Brokers) -> list[tuple[int, RecordTuple]]:
    """Return each record with its partition."""
    now_ms, count = brokers.wall_ms, topic.partition_count
    of_others = brokers.random_number() % count
    found: list[tuple[int, RecordTuple]] = []
    for at, it in enumerate(records):
        where = f"records[{at}]"
        if it.partition is not None and it.partition >= count:
            raise Refused(400, f"{where}: topic {topic.name} has no partition {it.partition}, only 0 to {count - 1}")
        key = _bytes(it.key, f"{where}.key")
        headers = [(name, _bytes(value, f"{where}.headers")) for name, value in it.headers]
        timestamp = now_ms if it.timestamp is None else it.timestamp
        partition = it.partition
        if partition is None:
            partition = of_others if key is None else scan.murmur2(key) % count
        found.append((partition, (key, _bytes(it.value, f"{where}.value"), headers, timestamp)))
    return found


def _bytes(text: Text, where: str) -> bytes | None:
    match text:
        case None:
            return None
        case str():
            return text.encode()
    if (text.base64 is UNSET) == (text.json is UNSET):
        raise Refused(400, f'{where}: give either "base64" or "json"')
    if not isinstance(text.base64, UnsetType):
        try:
            return b64decode(text.base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Refused(400, f"{where}: it is not base64: {error}") from error
    return bytes(text.json) if not isinstance(text.json, UnsetType) else None


def _parts(records: Sequence[tuple[int, RecordTuple]]) -> Iterator[list[tuple[int, RecordTuple]]]:
    """Divide records among batches."""
    part: list[tuple[int, RecordTuple]] = []
    size = 0
    for one in records:
        key, value, headers, _ = one[1]
        added = _OVERHEAD + len(key or b"") + len(value or b"")
        added += sum(len(name) + len(content or b"") for name, content in headers)
        if part and size + added > BATCH_BYTES:
            yield part
            part, size = [], 0
        part.append(one)
        size += added
    yield part


async def _append(brokers: Brokers, topic: Topic, partition: int, records: Sequence[RecordTuple]) -> int:
    """Return the offset of the first record.  Raise Refused."""
    batch = build_batch(records)
    loop = asyncio.get_running_loop()
    until = loop.time() + RETRY_S_MAX
    while True:
        answer = await _answer(brokers, topic, partition, memoryview(bytearray(batch)))
        if answer is not None and not answer.error_code:
            return int(answer.base_offset)
        if answer is not None and answer.error_code not in _MOVING:
            raise _refused(answer, topic, partition)
        if loop.time() >= until:
            raise without_leader(topic, partition)
        await asyncio.sleep(PAUSE_S)


async def _answer(brokers: Brokers, topic: Topic, partition: int, batch: memoryview) -> Any:
    """Return the leader's answer; None if there is no leader now."""
    place = brokers.place(topic, partition)
    if place is None:
        return None
    asked = produce.Request.Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_data=[produce.Request.Topic.Partition(index=partition, records=batch)],
    )
    request = produce.Request(acks=ACKS_ALL, timeout_ms=TIMEOUT_MS, topic_data=[asked])
    try:
        response = await brokers.ask_listener(place.leader, produce.API, request)
    except Unreachable as lost:
        if not lost.is_sent:
            return None
        raise Refused(
            503,
            f"it is not known whether partition {partition} of topic {topic.name} has taken the records: {lost}",
            retry_after_s=RETRY_AFTER_S,
            error="REQUEST_TIMED_OUT",
        ) from lost
    ((answer,),) = (it.partition_responses for it in response.responses)
    return answer


_STATUSES: Final = {
    errors.MESSAGE_TOO_LARGE: 413,
    errors.INVALID_RECORD: 400,
    errors.INVALID_TIMESTAMP: 400,
    errors.INVALID_TOPIC_EXCEPTION: 403,
}


def _refused(answer: Any, topic: Topic, partition: int) -> Refused:
    name = errors.name(answer.error_code)
    detail = answer.error_message or f"partition {partition} of topic {topic.name}: {name}"
    status = _STATUSES.get(answer.error_code)
    if status is None:
        return Refused(503, detail, retry_after_s=RETRY_AFTER_S, error=name)
    return Refused(status, detail, error=name)


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/topics/{topic}/records",
        operation=Operation.WRITE,
        handler=produce_records,
        body=ProduceBody,
        example={"records": [{"key": "ann", "value": {"json": {"to": "a@b.c"}}}, {"value": "text"}]},
        response=Produced,
        summary="Write records; the response comes when all are committed.",
    ),
)
