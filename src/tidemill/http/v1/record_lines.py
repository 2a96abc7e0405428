"""`/v1/topics/{topic}/records` with a body of lines (application/x-ndjson): produce any number of records.

parts of the body ─▶ `LineParser` ─▶ records ─▶ `TopicWriter`, which writes while the body arrives ─▶ runs

While megabytes of records wait for its leaders, or any while other requests have taken all memory, the body is not
read, so that the client slows down.
"""

import asyncio
from array import array
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Final

import msgspec
from starlette.types import Receive, Scope, Send

from tidemill.http.access import LINES_TYPE
from tidemill.http.answer import JSON_TYPE, Answer, json_answer
from tidemill.http.v1.budgets import FREE_BYTES, Exhausted, taken_by
from tidemill.http.v1.calls import Call, Refused, Route, body_parts, busy
from tidemill.http.v1.legal import legal
from tidemill.http.v1.records import BadRecord, NewRecord, record_of, records_per_turn, take_headers
from tidemill.http.v1.rights import WRITE_TOPIC
from tidemill.http.v1.stream_response import send_part
from tidemill.http.v1.topic_writer import RUNS_PER_TURN, RecordRefused, Run, TopicWriter
from tidemill.http.v1.topics import topic_of
from tidemill.metadata.image import Topic
from tidemill.model import errors

LINE_BYTES_MAX: Final = 1 << 20  # as a body of JSON
LINES_MAX: Final = 1_000_000  # so that what a request remembers of its lines, 12 bytes of each, is bounded
TURN_BYTES: Final = 256 << 10  # of memory for the records that are decoded at once: hundreds of small ones
STOP_S_MAX: Final = 0.5  # for records in flight when the broker stops: the response has to leave within a second
DROP_S_MAX: Final = 5.0  # what follows a refused line is read for so long: most clients send all before they listen
_decode = msgspec.json.Decoder(NewRecord).decode


class WrittenLines(msgspec.Struct, frozen=True):
    """How many records were written, and where: runs of partition, first offset and count, in the lines' order."""

    records: int
    written: list[tuple[int, int, int]]


class LineParser:
    """Cuts the parts of a body into lines."""

    def __init__(self) -> None:
        self._rest = bytearray()  # the beginning of the next line

    @property
    def held_bytes(self) -> int:
        return len(self._rest)

    def feed(self, part: bytes) -> Iterator[bytes]:
        """
        Yield the lines that end in this part of the body; also a line without an end, if it is too long.

        They are cut off one by one, because short lines take many times the memory of the part.
        """
        begin = 0
        while (end := part.find(b"\n", begin)) >= 0:
            if self._rest:
                self._rest += part[begin:end]
                yield from self.end()
            else:
                yield part[begin:end]
            begin = end + 1
        self._rest += part[begin:]
        if len(self._rest) > LINE_BYTES_MAX:
            yield from self.end()

    def end(self) -> list[bytes]:
        """Return the last line, if nothing ends it."""
        rest, self._rest = bytes(self._rest), bytearray()
        return [rest] if rest else []


async def produce_lines(call: Call) -> "RunsResponse":
    parts = body_parts(call.request)
    try:
        topic = topic_of(call)
    except Refused:
        await _drop(parts)
        raise
    writer = TopicWriter(call.brokers, topic, taken_by(call.request).budgets)
    lines = _Lines(call, topic, writer)
    try:
        refused = await lines.read(parts)
        await writer.finish()
    except asyncio.CancelledError:  # by the HTTP server, when the broker stops
        dropping = asyncio.ensure_future(_drop(body_parts(call.request), STOP_S_MAX))
        return await lines.refusal(await _stopped(writer), dropping)
    finally:
        writer.close()
    refused = writer.refused or refused
    if refused is None:
        return RunsResponse(json_answer({"records": lines.records}), writer.runs())
    if not lines.is_exhausted:  # otherwise the rest is not read here: that takes memory, too
        await _drop(parts)
    return await lines.refusal(refused)


async def _stopped(writer: TopicWriter) -> Refused:
    """Return the refusal of the lines that a stop of the broker cuts off, after a wait for those in flight."""
    answers = asyncio.ensure_future(writer.wait_for_answers())
    await asyncio.wait((answers,), timeout=STOP_S_MAX)
    answers.cancel()
    is_in_doubt = writer.is_in_doubt
    writer.close()  # in the same turn, so that no other batch leaves
    if is_in_doubt:
        unknown = "this broker stops, and it is not known whether the lines that are null in written were written"
        return Refused(503, unknown, retry_after_s=1, error=errors.name(errors.REQUEST_TIMED_OUT))
    stops = "this broker stops: send the lines from line on to another broker"
    return writer.refused or Refused(503, stops, retry_after_s=1)


class _Lines:
    def __init__(self, call: Call, topic: Topic, writer: TopicWriter) -> None:
        self._brokers = call.brokers
        self._topic = topic
        self._writer = writer
        self._taken = taken_by(call.request)
        self._parser = LineParser()
        # The blank lines: how many records come before some of them, and how many blank lines there are up to these.
        # Adjacent ones share an entry, so that a body of nothing else takes no memory.
        self._blank = array("q"), array("q")
        self._blank_count = 0
        self.records = 0
        self.is_exhausted = False  # whether there was no memory for more

    async def read(self, parts: AsyncIterator[bytes]) -> Refused | None:
        """Pass the records of a body to the writer, and return why it was not read to its end; None if it was."""
        try:
            async for part in parts:
                lines = self._parser.feed(part)
                while await self._add_some(lines):
                    if self._writer.is_stopped:
                        return None
            await self._add_some(iter(self._parser.end()))
        except Refused as refused:
            return refused
        except Exhausted as exhausted:
            self._parser.end()  # the beginning of this line is in vain
            self.is_exhausted = True
            return busy(exhausted)
        return None

    async def _take_memory(self) -> None:
        """
        Take memory for what is not written yet.  If there is none left, write it first, and keep only the beginning of
        the next line.  Raise Exhausted if that is too long.
        """
        try:
            self._taken.body(self._held_bytes)
        except Exhausted:
            await self._writer.wait_for_room(0)
            self._taken.body(self._parser.held_bytes)

    @property
    def _held_bytes(self) -> int:
        return self._parser.held_bytes + self._writer.waiting_bytes

    async def _add_some(self, lines: Iterator[bytes]) -> bool:
        """Add the records of some lines, and return whether there may be more."""
        try:
            self._taken.body(self._held_bytes + TURN_BYTES)
        except Exhausted:
            async with self._taken.budgets.turns:  # a thousand requests would have tens of megabytes of records
                has_more = self._add(lines, FREE_BYTES)
                await self._writer.wait_for_room(0)
        else:
            has_more = self._add(lines, self._writer.waiting_bytes + TURN_BYTES)
            await self._writer.wait_for_room()
        await self._take_memory()
        await asyncio.sleep(0)
        return has_more

    def _add(self, lines: Iterator[bytes], waiting_max: int) -> bool:
        """
        Add the records of some lines, until `waiting_max` bytes wait to be written; at least one line.  Return whether
        there may be more.
        """
        now_ms, config = self._brokers.wall_ms, self._brokers.config_of(self._topic)
        before, per_turn = self._line_count, records_per_turn(config)
        for line in islice(lines, per_turn):
            if self._line_count == LINES_MAX:
                raise Refused(413, f"the body has more than {LINES_MAX} lines; divide it among several requests")
            if not line or line.isspace():
                self._add_blank()
                continue
            if len(line) > LINE_BYTES_MAX:
                raise Refused(413, f"line {self._next_line}: it has more than {LINE_BYTES_MAX} bytes")
            try:
                given = _decode(line)
                take_headers(self._taken, len(given.headers))
                record = record_of(given, self._topic, config, now_ms)
            except (msgspec.DecodeError, BadRecord, UnicodeDecodeError, RecursionError) as problem:
                instead = legal(NewRecord, problem) if isinstance(problem, msgspec.ValidationError) else ""
                raise Refused(400, f"line {self._next_line}: {problem}{instead}") from problem
            self._writer.add(given.partition, record)
            self.records += 1
            if self._writer.waiting_bytes >= waiting_max:
                return True
        return self._line_count - before == per_turn

    @property
    def _line_count(self) -> int:
        return self.records + self._blank_count

    def _add_blank(self) -> None:
        before, counts = self._blank
        self._blank_count += 1
        if before and before[-1] == self.records:
            counts[-1] = self._blank_count
        else:
            before.append(self.records)
            counts.append(self._blank_count)

    @property
    def _next_line(self) -> int:
        return self._line_of(self.records)

    def _line_of(self, record: int) -> int:
        """Return the number of a record's line, from 1."""
        before, counts = self._blank
        at = bisect_right(before, record)
        return record + 1 + (counts[at - 1] if at else 0)

    async def refusal(self, refused: Refused, dropping: asyncio.Task[None] | None = None) -> "RunsResponse":
        """Return the response to lines of which not all are written, when nothing more is sent."""
        if isinstance(refused, RecordRefused):
            refused = refused.named(f"line {self._line_of(refused.number)}")
        answer = refused.with_fields(line=await self._first_missing()).answer
        return RunsResponse(answer, self._writer.runs(), dropping)

    async def _first_missing(self) -> int:
        """Return the number of the first line that was not written."""
        before = 0
        for at, run in enumerate(self._writer.runs()):
            if run.partition is None:
                break
            before += run.length
            if at % RUNS_PER_TURN == 0:
                await asyncio.sleep(0)
        return self._line_of(before)


async def _drop(parts: AsyncIterator[bytes], seconds: float = DROP_S_MAX) -> None:
    """Read the rest of a body for a while: a response before its end would be lost with the connection."""
    try:
        async with asyncio.timeout(seconds):
            async for _ in parts:
                pass
    except (TimeoutError, Refused, asyncio.CancelledError):  # the last, when the broker stops
        return  # the client gets the response to its lines, if it is still there


class RunsResponse:
    """
    An ASGI response: an object of JSON whose last field, `written`, is a list of runs; it may be long.  It ends when
    the rest of the body is dropped: the connection, closed with unread bytes, would lose what the client has not got.
    """

    def __init__(self, answer: Answer, runs: Iterator[Run], dropping: asyncio.Task[None] | None = None) -> None:
        self._answer = answer
        self._runs = runs
        self._dropping = dropping

    async def __call__(self, _: Scope, __: Receive, send: Send) -> None:
        status, content_type, text, more = self._answer
        headers = [(b"content-type", content_type.encode()), (b"cache-control", b"no-store"), *more]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        part = text.rstrip().removesuffix("}").encode() + b',"written":['
        separator = b""
        while runs := list(islice(self._runs, RUNS_PER_TURN)):
            await send_part(send, part + separator + msgspec.json.encode(runs)[1:-1])
            part, separator = b"", b","
            await asyncio.sleep(0)
        if self._dropping is not None:
            await send_part(send, part + b"]}\n")
            await self._dropping
            await send({"type": "http.response.body", "body": b""})
            return
        await send({"type": "http.response.body", "body": part + b"]}\n"})


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/topics/{topic}/records",
        access=WRITE_TOPIC,
        handler=produce_lines,
        body=NewRecord,
        body_type=LINES_TYPE,
        example={"key": "ann", "value": "text"},
        response=WrittenLines,
        media_types=(JSON_TYPE,),
        summary="Write lines of JSON, each a record, while they come.",
    ),
)
