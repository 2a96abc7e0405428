"""`/v1/topics/{topic}/stream`: records as they come, as server-sent events or as lines of JSON.

    id: 0:13,1:5@nLBm…               where each partition continues, after this record; alone at the beginning
    data: {"partition": 0, …}        a record
    : heartbeat                      after a while without records
    event: problem                   the stream ends; data has the problem details, id where it may be continued

A client that connects again sends the last id in the header Last-Event-ID, as browsers do, and misses and repeats
nothing.  The id ends with that of the topic, because a later topic of the same name has other records at these offsets.
A reader that is slow slows the stream down: a page of each partition is held, and nothing more is read.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from tidemill.http.access import LINES_TYPE
from tidemill.http.v1.brokers import Brokers
from tidemill.http.v1.budgets import Exhausted, Taken, taken_by
from tidemill.http.v1.calls import Call, Refused, Route, busy
from tidemill.http.v1.group_coordinators import describe_group
from tidemill.http.v1.group_offsets import Position, positions_of
from tidemill.http.v1.partition_offsets import LOG_END, LOG_START, OFFSET_MAX, offsets_at
from tidemill.http.v1.partition_reads import NothingReadable, PartitionReader, ReadRecords, size_of
from tidemill.http.v1.record_schema import Header, Text
from tidemill.http.v1.rights import READ_TOPIC
from tidemill.http.v1.stream_response import StreamResponse
from tidemill.http.v1.topics import topic_of
from tidemill.metadata.image import Topic
from tidemill.model.topic import topic_id_text

PARTITIONS_MAX: Final = 64  # of one stream without the parameter `partition`
PAGE: Final = 100  # records of a partition that are read ahead
WAIT_MS: Final = 20_000
HEARTBEAT_S: Final = 15.0
SSE: Final = "text/event-stream"
OF_TOPIC: Final = "@"  # in an id, before that of the topic; a client that makes its own may leave both out
_encoder = msgspec.json.Encoder()
_encode, _encode_into = _encoder.encode, _encoder.encode_into


class StreamQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"start": "from"}):
    start: Annotated[Literal["earliest", "latest"], Meta(description="Where the stream begins.")] = "latest"
    time: Annotated[int, Meta(ge=0, le=OFFSET_MAX, description="Begin at this time, in ms.")] | None = None
    partition: Annotated[int, Meta(ge=0)] | None = None
    offset: Annotated[int, Meta(ge=0, le=OFFSET_MAX, description="Begin at this offset of `partition`.")] | None = None
    group: (
        Annotated[str, Meta(description="Begin where this group continues, and at `from` where it has no offset.")]
        | None
    ) = None


class StreamRecord(msgspec.Struct, frozen=True):
    partition: int
    offset: int
    timestamp: int | None
    key: Text
    value: Text
    headers: list[Header]


async def stream(call: Call) -> StreamResponse:
    topic, query = topic_of(call), call.query
    positions = _positions_of(call.request.headers.get("last-event-id"), topic)
    if positions is None:
        positions = await _begin(call.brokers, topic, query)
    taken = taken_by(call.request)
    taken.wait(len(positions))
    for number, offset in positions.items():
        await PartitionReader(call.brokers, topic, number).check(offset)
    is_sse = LINES_TYPE not in call.request.headers.get("accept", "")
    parts = _parts(_Stream(call.brokers, topic, positions, taken), is_sse=is_sse)
    return StreamResponse(parts, SSE if is_sse else LINES_TYPE)


def _positions_of(text: str | None, topic: Topic) -> dict[int, int] | None:
    """Return the positions in a Last-Event-ID; None without one.  Raise Refused."""
    if not text:
        return None
    found: dict[int, int] = {}
    positions, at, topic_id = text.partition(OF_TOPIC)
    for part in positions.split(","):
        number, _, offset = part.partition(":")
        if not all(it.isascii() and it.isdigit() and len(it) <= 19 for it in (number, offset)):
            raise Refused(400, f"Last-Event-ID: {text[:200]} is not an id of this stream, such as 0:13,1:5")
        found[int(number)] = int(offset)
    if at and topic_id != (present := topic_id_text(topic.topic_id)):
        raise Refused(
            410,
            f"Last-Event-ID: {text[:200]} is of another topic: {topic.name} has the id {present} now, and other "
            "records at these offsets; begin anew, without Last-Event-ID",
            topic_id=present,
        )
    if len(found) > PARTITIONS_MAX:
        raise Refused(400, f"Last-Event-ID: it has {len(found)} partitions, and a stream at most {PARTITIONS_MAX}")
    if max(found) >= topic.partition_count or max(found.values()) > OFFSET_MAX:
        raise Refused(400, f"Last-Event-ID: {text[:200]} is not an id of a stream of topic {topic.name}")
    return found


async def _begin(brokers: Brokers, topic: Topic, query: StreamQuery) -> dict[int, int]:
    if query.offset is not None and (query.partition is None or query.time is not None):
        raise Refused(400, f"offset={query.offset} needs the parameter partition, and no time")
    if query.group is not None and (query.offset is not None or query.time is not None):
        raise Refused(400, f"group={query.group[:300]} has offsets of its own: leave offset and time out")
    if query.partition is not None and query.partition >= topic.partition_count:
        raise Refused(404, f"topic {topic.name} has no partition {query.partition}")
    numbers = range(topic.partition_count) if query.partition is None else [query.partition]
    if len(numbers) > PARTITIONS_MAX:
        raise Refused(
            400, f"topic {topic.name} has {len(numbers)} partitions, and a stream at most {PARTITIONS_MAX}: choose one"
        )
    if query.offset is not None:
        return {numbers[0]: query.offset}
    timestamp = query.time
    if timestamp is None:
        timestamp = LOG_START if query.start == "earliest" else LOG_END
    found = {} if query.group is None else await _positions_of_group(brokers, topic, query.group)
    begin = {number: found[number].offset for number in numbers if number in found}
    return begin | await offsets_at(brokers, topic, [it for it in numbers if it not in begin], timestamp)


async def _positions_of_group(brokers: Brokers, topic: Topic, name: str) -> Mapping[int, Position]:
    positions = await positions_of(brokers, await describe_group(brokers, name), topic)
    return positions.get(topic.name, {})


class _Stream:
    def __init__(self, brokers: Brokers, topic: Topic, positions: Mapping[int, int], taken: Taken) -> None:
        self._brokers = brokers
        self._topic = topic
        self._positions = dict(sorted(positions.items()))
        self._taken = taken
        self._pages: asyncio.Queue[tuple[int, ReadRecords | NothingReadable] | Exception] = asyncio.Queue(1)

    async def events(self) -> AsyncGenerator[tuple[str, StreamRecord | None], None]:
        """Yield each record with the stream's position behind it, and None as a heartbeat.  Raise Refused."""
        followers = [asyncio.ensure_future(self._follow(*one)) for one in self._positions.items()]
        try:
            while True:
                try:
                    async with asyncio.timeout(HEARTBEAT_S):  # wait_for may ignore the end of the stream
                        page = await self._pages.get()
                except TimeoutError:
                    yield self.position, None
                    continue
                if isinstance(page, Exception):
                    try:
                        raise page
                    finally:
                        del page  # it refers to this frame: with it, it would keep what was read until the next gc
                number, read = page
                if isinstance(read, NothingReadable):
                    self._positions[number] = read.next_offset
                    raise read.with_fields(partition=number)
                for it in read.records:
                    self._positions[number] = it.offset + 1
                    yield self.position, StreamRecord(number, it.offset, it.timestamp, it.key, it.value, it.headers)
                self._taken.give_back(size_of(read))
        finally:
            for follower in followers:
                follower.cancel()

    @property
    def position(self) -> str:
        positions = ",".join(f"{number}:{offset}" for number, offset in self._positions.items())
        return f"{positions}{OF_TOPIC}{topic_id_text(self._topic.topic_id)}"

    async def _follow(self, number: int, offset: int) -> None:
        reader = PartitionReader(self._brokers, self._topic, number)
        try:
            while True:
                page = await reader.read(offset, PAGE, WAIT_MS, self._taken)
                offset = page.next_offset
                if page.records:
                    self._taken.response(size_of(page))
                    await self._pages.put((number, page))
        except NothingReadable as unreadable:
            await self._pages.put((number, unreadable))
        except Exception as problem:  # the reader of the pages raises it
            await self._pages.put(problem)


async def _parts(source: _Stream, *, is_sse: bool) -> AsyncGenerator[bytes | bytearray, None]:
    """Yield the events of a stream, as server-sent events or as lines of JSON."""
    yield b"id: %s\n\n" % source.position.encode() if is_sse else _encoded(source.position, None, is_sse=False)
    try:
        async with aclosing(source.events()) as events:
            async for position, record in events:
                yield _encoded(position, record, is_sse=is_sse)
    except (Refused, Exhausted) as problem:  # which must not be in another variable, or it keeps this frame
        answer = busy(problem).answer if isinstance(problem, Exhausted) else problem.answer
        text = answer.text.strip().encode()
        form = b"id: %s\nevent: problem\ndata: %s\n\n" if is_sse else b'{"position": "%s", "problem": %s}\n'
        yield form % (source.position.encode(), text)


def _encoded(position: str, record: StreamRecord | None, *, is_sse: bool) -> bytes | bytearray:
    if record is None:
        return b": heartbeat\n\n" if is_sse else _encode({"position": position}) + b"\n"
    event = bytearray(b"id: %s\ndata: " % position.encode() if is_sse else b"")
    _encode_into(record, event, -1)  # at the end, because a record can be large, and must not be copied
    event += b"\n\n" if is_sse else b"\n"
    return event


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/topics/{topic}/stream",
        access=READ_TOPIC,
        handler=stream,
        query=StreamQuery,
        response=StreamRecord,
        media_types=(SSE, LINES_TYPE),
        summary="Stream records as they come, as server-sent events or lines of JSON.",
    ),
)
