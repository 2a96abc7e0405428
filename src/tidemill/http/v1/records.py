"""`/v1/topics/{topic}/records` with a body of JSON: produce records.

A record goes to the partition that it names, or to that of its key, as Java's producer chooses it (murmur2); those
without both stay together in batches.  Each partition's leader gets the request's records in their order, in batches,
and answers when they are committed.
"""

import asyncio
import binascii
from base64 import b64decode
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tidemill.batches.builder import RecordTuple
from tidemill.batches.records import HEADER_MEMORY
from tidemill.http.v1.brokers import Brokers
from tidemill.http.v1.budgets import Taken, taken_by
from tidemill.http.v1.calls import Call, Refused, Route
from tidemill.http.v1.due_fields import At, Delay, Missed, Schedule, TimerId, Timezone, timer_headers
from tidemill.http.v1.rights import WRITE_TOPIC
from tidemill.http.v1.topic_writer import RecordRefused, Run, TopicWriter
from tidemill.http.v1.topics import topic_of
from tidemill.metadata.image import Topic
from tidemill.model.topic_config import TopicConfig
from tidemill.timer.due_time import BadDueTime
from tidemill.timer.timer_headers import TIMER_ID

RECORDS_MAX: Final = 10_000
HEADERS_FREE: Final = 10_000  # of a body are not counted: as many as a million bytes of records usually have
RECORDS_PER_TURN: Final = 500  # that many take a millisecond or two of the event loop
TIMERS_PER_TURN: Final = 50  # so many schedules take a few milliseconds
TIMESTAMP_MAX: Final = (1 << 63) - 1


class Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Bytes as base64, or a JSON value; one of the two."""

    base64: Annotated[str, Meta(extra_json_schema={"contentEncoding": "base64"})] | UnsetType = UNSET
    json: msgspec.Raw | UnsetType = UNSET


Text = str | Annotated[Content, Meta(extra_json_schema={"minProperties": 1, "maxProperties": 1})] | None
"""UTF-8 text, other content, or none."""


class NewRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):  # it has no cycles
    value: Text = None
    key: Text = None
    headers: list[tuple[str, Text]] = []
    partition: Annotated[int, Meta(ge=0)] | None = None
    timestamp: (
        Annotated[int, Meta(ge=0, le=TIMESTAMP_MAX, description="In ms since the epoch; now, if absent.")] | None
    ) = None
    delay: Delay = None
    at: At = None
    timer_id: TimerId = None
    schedule: Schedule = None
    timezone: Timezone = None
    missed: Missed = None


class BadRecord(ValueError):
    """A record is not as it must be."""


class ProduceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    records: Annotated[list[NewRecord], Meta(min_length=1, max_length=RECORDS_MAX)]


class Written(msgspec.Struct, frozen=True):
    partition: int
    offset: int


class Produced(msgspec.Struct, frozen=True):
    """Where each record of the request is, in their order."""

    records: list[Written]


async def produce_records(call: Call) -> Produced:
    records = call.body.records
    taken = taken_by(call.request)
    take_headers(taken, sum(len(it.headers) for it in records))
    return await produce_all(call.brokers, topic_of(call), records, taken)


def take_headers(taken: Taken, count: int) -> None:
    """Take the memory of headers, if there are more than large bodies usually have.  Raise Exhausted."""
    if count > HEADERS_FREE:
        taken.decoded(HEADER_MEMORY * (count - HEADERS_FREE))


async def produce_all(
    brokers: Brokers, topic: Topic, records: Sequence[NewRecord], taken: Taken, *, name: str = "records"
) -> Produced:
    """Write records, and return when all are committed.  Raise Refused; `name` is what the body calls the records."""
    return await write_records(brokers, topic, await _encoded(records, topic, brokers, name), taken, name=name)


async def write_records(
    brokers: Brokers,
    topic: Topic,
    records: Sequence[tuple[int | None, RecordTuple]],
    taken: Taken,
    *,
    name: str | None = None,
) -> Produced:
    """
    Write records, each with its partition or None, and return when all are committed.  Raise Refused, which names a
    record that is at fault by its place in the list `name` of the body, if it is in one.
    """
    writer = TopicWriter(brokers, topic, taken.budgets)
    try:
        for at, (partition, record) in enumerate(records, 1):
            writer.add(partition, record)
            if at % RECORDS_PER_TURN == 0:
                await asyncio.sleep(0)
        await writer.finish()
    finally:
        writer.close()
    written = [place for run in writer.runs() for place in _places(run)]
    refused = writer.refused
    if refused is not None:
        if isinstance(refused, RecordRefused) and name is not None:
            refused = refused.named(f"{name}[{refused.number}]")
        raise refused.with_fields(written=written)
    return Produced([Written(*place) for place in written if place is not None])


def _places(run: Run) -> list[tuple[int, int] | None]:
    """Return the partition and offset of each record of a run."""
    if run.partition is None or run.first_offset is None:
        return [None] * run.length
    return [(run.partition, run.first_offset + at) for at in range(run.length)]


def records_per_turn(config: TopicConfig) -> int:
    """Return how many records for a topic are read in one turn of the event loop."""
    return TIMERS_PER_TURN if config.is_timer else RECORDS_PER_TURN


async def _encoded(
    records: Sequence[NewRecord], topic: Topic, brokers: Brokers, name: str
) -> list[tuple[int | None, RecordTuple]]:
    """Return each record with its partition, if it names one.  Raise Refused, before anything is written."""
    now_ms, config = brokers.wall_ms, brokers.config_of(topic)
    per_turn = records_per_turn(config)
    found: list[tuple[int | None, RecordTuple]] = []
    for at, it in enumerate(records):
        try:
            found.append((it.partition, record_of(it, topic, config, now_ms)))
        except BadRecord as problem:
            raise Refused(400, f"{name}[{at}]: {problem}") from problem
        if at % per_turn == 0:
            await asyncio.sleep(0)
    return found


def record_of(given: NewRecord, topic: Topic, config: TopicConfig, now_ms: int) -> RecordTuple:
    """Return a record as bytes.  Raise BadRecord."""
    count = topic.partition_count
    if given.partition is not None and given.partition >= count:
        raise BadRecord(f"topic {topic.name} has no partition {given.partition}, only 0 to {count - 1}")
    headers = [(name, _bytes(value, "headers")) for name, value in given.headers] if given.headers else []
    try:
        headers += timer_headers(given, headers=headers, config=config, now_ms=now_ms)
    except BadDueTime as problem:
        raise BadRecord(str(problem)) from problem
    is_spread = config.is_timer and given.key is None and given.partition is None and count > 1
    if is_spread and any(name == TIMER_ID for name, _ in headers):
        raise BadRecord(
            f"timer_id without key: it names a timer of one partition, of which topic {topic.name} has {count}, and a "
            "record without a key goes to any of them: give the same key each time, or a partition"
        )
    timestamp = now_ms if given.timestamp is None else given.timestamp
    return _bytes(given.key, "key"), _bytes(given.value, "value"), headers, timestamp


def _bytes(text: Text, where: str) -> bytes | None:
    if text is None:
        return None
    if isinstance(text, str):
        return text.encode()
    if (text.base64 is UNSET) == (text.json is UNSET):
        raise BadRecord(f'{where}: give either "base64" or "json"')
    if not isinstance(text.base64, UnsetType):
        return from_base64(text.base64, where)
    return bytes(text.json) if not isinstance(text.json, UnsetType) else None


def from_base64(text: str, where: str) -> bytes:
    """Raise BadRecord."""
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRecord(f"{where}: it is not base64: {error}") from error


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/topics/{topic}/records",
        access=WRITE_TOPIC,
        handler=produce_records,
        body=ProduceBody,
        example={"records": [{"key": "ann", "value": {"json": {"to": "a@b.c"}}}, {"value": "text"}]},
        response=Produced,
        summary="Write records; the response comes when all are committed.",
        gives={"partition": "/records/0/partition", "offset": "/records/0/offset"},
    ),
)
