"""`/v1/topics/{topic}/partitions/{partition}/records`: read records by offset or time, with a long poll.

offset, or time ─▶ ListOffsets ─▶ Fetch from the leader, which waits for records ─▶ decoded in a thread ─▶ response
"""

import asyncio
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from tidemill.batches.batch import spans
from tidemill.batches.records import HEADER_MEMORY, OPENED_HEADERS_MAX, Record, read_record, read_records
from tidemill.http.v1.brokers import Brokers, Unreachable
from tidemill.http.v1.budgets import Taken, taken_by
from tidemill.http.v1.calls import Call, Refused, Route
from tidemill.http.v1.kafka_errors import check, without_leader
from tidemill.http.v1.partition_offsets import LOG_END, LOG_START, MOVING, OFFSET_MAX, offsets_at
from tidemill.http.v1.record_schema import (
    DECOMPRESSED_BYTES_MAX,
    Header,
    Text,
    batches_of,
    headers_of,
    size_of_batches,
    size_of_record,
    text_of,
)
from tidemill.http.v1.retries import retried
from tidemill.http.v1.rights import READ_TOPIC
from tidemill.http.v1.topics import topic_of
from tidemill.metadata.image import Topic
from tidemill.model import errors
from tidemill.wire.messages import fetch

LIMIT_MAX: Final = 1_000
WAIT_MS_MAX: Final = 30_000
TURN_MS: Final = 5_000  # of one request to a leader, so that a leader that moves is noticed during a longer wait
BYTES_MAX: Final = 1 << 20  # of compressed batches, unless the first one is larger
DECODED_BYTES_MAX: Final = 4 << 20  # of records in one response, unless the first one is larger
NUMBER_DIGITS_MAX: Final = 10


class ReadQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    offset: Annotated[int, Meta(ge=0, le=OFFSET_MAX, description="The first offset to read.")] | None = None
    time: Annotated[int, Meta(ge=0, le=OFFSET_MAX, description="The time to begin at, in ms.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = 100
    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MS_MAX, description="How long to wait for a record.")] = 0


class ReadRecord(msgspec.Struct, frozen=True):
    offset: int
    timestamp: int | None
    key: Text
    value: Text
    headers: list[Header]


class ReadRecords(msgspec.Struct, frozen=True):
    records: list[ReadRecord]
    next_offset: int  # where the next read continues
    log_start: int
    end: int  # one more than the last offset that can be read now


class Unreadable(NamedTuple):
    """A batch that its producer has not encoded as records."""

    first: int
    next_offset: int
    problem: str


async def read(call: Call) -> ReadRecords:
    topic, query = topic_of(call), call.query
    partition = partition_of(call.names["partition"], topic)
    if query.offset is not None and query.time is not None:
        raise Refused(400, f"offset={query.offset} and time={query.time}: give one of them")
    taken = taken_by(call.request)
    taken.response(0)
    if query.wait_ms:
        taken.wait()
    reader = PartitionReader(call.brokers, topic, partition)
    offset = query.offset
    if offset is None:
        offset = await reader.offset_at(LOG_START if query.time is None else query.time)
    return await reader.read(offset, query.limit, query.wait_ms, taken)


class NothingReadable(Refused):
    """A read begins at a batch that cannot be decoded; `next_offset` is behind it."""

    def __init__(self, detail: str, next_offset: int) -> None:
        super().__init__(422, detail, next_offset=next_offset)
        self.next_offset = next_offset


class PartitionReader:
    """Reads one partition, wherever its leader is."""

    def __init__(self, brokers: Brokers, topic: Topic, partition: int) -> None:
        self._brokers = brokers
        self._topic = topic
        self._partition = partition

    async def offset_at(self, timestamp: int) -> int:
        """
        Return the offset of the first record at or after `timestamp`, or the end if there is none.
        """
        return (await offsets_at(self._brokers, self._topic, [self._partition], timestamp))[self._partition]

    async def check(self, offset: int) -> None:
        """Raise Refused, as `read` does, for an offset that cannot be read."""
        start, end = await self.offset_at(LOG_START), await self.offset_at(LOG_END)
        if not start <= offset <= end:
            raise await self._out_of_range(offset)

    async def read(self, offset: int, limit: int, wait_ms: int, taken: Taken) -> ReadRecords:
        """
        Return up to `limit` records from an offset on; none if none came within the wait.  Raise Refused or Exhausted.
        """
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + wait_ms / 1_000
        while True:
            left_ms = max(round((ends_at - loop.time()) * 1_000), 0)
            answer = await self._fetched(offset, min(left_ms, TURN_MS))
            size = size_of_batches(answer.records)
            taken.response(size)
            async with self._brokers.decoding:
                records, next_offset, bad = await asyncio.to_thread(_decoded, batches_of(answer.records), offset, limit)
            taken.give_back(size)
            if bad is not None and not records:
                raise NothingReadable(
                    f"the batch at offset {bad.first} of partition {self._partition} of topic {self._topic.name} has "
                    f"no readable records: {bad.problem}; continue at next_offset",
                    bad.next_offset,
                )
            if records or loop.time() >= ends_at:
                return ReadRecords(records, next_offset, answer.log_start_offset, answer.high_watermark)
            offset = next_offset

    async def record_at(self, offset: int, taken: Taken) -> Record | None:
        """Return one record; None if there is none, or no more, at the offset.  Raise Refused or Exhausted."""
        end = await self.offset_at(LOG_END)
        if offset >= end:
            return None
        answer = await self._fetched(offset, 0, bytes_max=1)  # one batch, of any size
        async with self._brokers.decoding:
            record = await asyncio.to_thread(_record_at, batches_of(answer.records), offset)
            taken.response(0 if record is None else record_bytes(record))
        return record

    async def _fetched(self, offset: int, wait_ms: int, *, bytes_max: int = BYTES_MAX) -> Any:
        asked = fetch.Request.Topic
        request = fetch.Request(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=bytes_max,
            topics=[
                asked(
                    topic=self._topic.name,
                    topic_id=self._topic.topic_id,
                    partitions=[
                        asked.Partition(partition=self._partition, fetch_offset=offset, partition_max_bytes=bytes_max)
                    ],
                )
            ],
        )
        answer = await self._answer(request)
        if answer.error_code == errors.OFFSET_OUT_OF_RANGE:
            raise await self._out_of_range(offset)
        check(answer.error_code, None, f"partition {self._partition} of topic {self._topic.name}")
        return answer

    async def _out_of_range(self, offset: int) -> Refused:
        start, end = await self.offset_at(LOG_START), await self.offset_at(LOG_END)
        where = f"partition {self._partition} of topic {self._topic.name}"
        if offset < start:
            return Refused(
                410,
                f"offset={offset}: retention has removed the records of {where} below {start}; begin there",
                partition=self._partition,  # a stream has several
                log_start=start,
            )
        return Refused(400, f"offset={offset}: {where} ends at {end}; read from there, or below", end=end)

    async def _answer(self, request: fetch.Request) -> Any:
        """Return the leader's answer about the partition.  Ask again while leaders move.  Raise Refused."""

        async def attempt() -> Any:
            place = self._brokers.place(self._topic, self._partition)
            if place is None:
                if self._brokers.image.topic_by_id(self._topic.topic_id) is None:
                    raise Refused(404, f"topic {self._topic.name} was deleted; one of this name has other offsets")
                return None
            try:
                answer = _of_fetch(await self._brokers.fetch(place.leader, request))
            except Unreachable:
                return None
            return None if answer.error_code in MOVING else answer

        return await retried(attempt, lambda: without_leader(self._topic, self._partition))


def _of_fetch(response: Any) -> Any:
    """Return the partition of a response, or the response if it refuses the request as a whole."""
    return response if response.error_code else response.responses[0].partitions[0]


def _decoded(data: bytes, offset: int, limit: int) -> tuple[list[ReadRecord], int, Unreadable | None]:
    """Return records from `offset` on, the offset behind them, and the batch that ended the reading early."""
    found: list[ReadRecord] = []
    next_offset, size = offset, 0
    for position, _, header in spans(data):
        if header.end_offset <= offset:
            continue
        if not header.is_control:
            try:
                records = read_records(
                    data,
                    position,
                    DECOMPRESSED_BYTES_MAX,
                    first=offset,
                    limit=limit - len(found) + 1,
                    headers_max=OPENED_HEADERS_MAX,
                )
            except ValueError as problem:
                return found, next_offset, Unreadable(header.base_offset, header.end_offset, str(problem))
            for record in records:
                size += record_bytes(record)
                if len(found) == limit or (found and size > DECODED_BYTES_MAX):
                    return found, next_offset, None
                stamped = header.max_timestamp if header.is_log_append_time else record.timestamp
                found.append(
                    ReadRecord(
                        offset=record.offset,
                        timestamp=stamped if stamped >= 0 else None,
                        key=text_of(record.key),
                        value=text_of(record.value),
                        headers=headers_of(record),
                    )
                )
                next_offset = record.offset + 1
            if records and next_offset < header.end_offset:
                return found, next_offset, None  # the records behind have too many headers for this response
        next_offset = header.end_offset
    return found, next_offset, None


def record_bytes(record: Record) -> int:
    size = sum(len(it or b"") for it in (record.key, record.value, *(it for header in record.headers for it in header)))
    return size + HEADER_MEMORY * len(record.headers)


def size_of(read: ReadRecords) -> int:
    """Return about how many bytes the records have."""
    return sum(size_of_record(it.key, it.value, it.headers) for it in read.records)


def _record_at(data: bytes, offset: int) -> Record | None:
    """Return the record at an offset.  Raise Refused if its batch has no readable records."""
    for position, _, header in spans(data):
        if header.base_offset <= offset < header.end_offset and not header.is_control:
            try:
                return read_record(data, offset, position, DECOMPRESSED_BYTES_MAX, headers_max=OPENED_HEADERS_MAX)
            except ValueError as problem:
                raise Refused(422, f"the batch at offset {header.base_offset} is not readable: {problem}") from problem
    return None


def partition_of(text: str, topic: Topic) -> int:
    """Return the partition in a path.  Raise Refused if the topic does not have it."""
    is_number = text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX
    if not is_number or int(text) >= topic.partition_count:
        raise Refused(404, f"topic {topic.name} has no partition {text[:100]}, only 0 to {topic.partition_count - 1}")
    return int(text)


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/topics/{topic}/partitions/{partition}/records",
        access=READ_TOPIC,
        handler=read,
        query=ReadQuery,
        response=ReadRecords,
        summary="Read records of a partition, from an offset, a time or the log start on.",
    ),
)
