"""The lines of a body of any length: their limits, and what is said about them."""

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.batches.records import read_records
from tidemill.http.v1 import calls, due_fields, record_lines, records, topic_writer
from tidemill.http.v1.brokers import Unreachable
from tidemill.http.v1.budgets import BYTES_MAX, FREE_BYTES, Budgets, Taken, begin
from tidemill.http.v1.calls import Call, Refused
from tidemill.http.v1.record_lines import LineParser, produce_lines
from tidemill.http.v1.topic_writer import TopicWriter
from tidemill.model import errors
from tidemill.model.topic_config import TopicConfig, compile_topic_config
from tidemill.timer.schedule import BATCH_SCHEDULES_MAX
from tidemill.wire.messages import produce

ANSWER = produce.Response.Topic.Partition
TOPIC = SimpleNamespace(name="t", topic_id=b"\x01" * 16, partition_count=3)


class LeadersStub:
    """
    Stands for the leaders of a topic's partitions, on one broker; `refused` makes one refuse its next batches, and a
    record with the value `bad` its own.
    """

    wall_ms = 1_000
    image = SimpleNamespace(topics={"t": TOPIC})
    config = compile_topic_config()

    def __init__(self) -> None:
        self.logs: dict[int, list[bytes | None]] = {0: [], 1: [], 2: []}
        self.headers: list[list[tuple[str, bytes | None]]] = []  # of all records
        self.batches: list[int] = []  # how many records each had
        self.refused: dict[int, int] = {}
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.leaderless: set[int] = set()
        self.unreachable: set[int] = set()
        self.batch_bytes_max: int | None = None  # as max.message.bytes of the topic
        self.asked = 0
        self.waiting = 0

    def random_number(self) -> int:
        return 1

    def config_of(self, _: object) -> TopicConfig:
        return self.config

    def place(self, _: object, partition: int) -> Any:
        return None if partition in self.leaderless else SimpleNamespace(leader=1)

    async def ask_listener(self, _: int, __: object, request: Any) -> Any:
        ((data,),) = (it.partition_data for it in request.topic_data)
        if data.index in self.unreachable:
            raise Unreachable("not registered", is_sent=False)
        self.asked += 1
        self.waiting += len(data.records)
        await self.is_open.wait()
        self.waiting -= len(data.records)
        log, code = self.logs[data.index], self.refused.get(data.index, 0)
        if self.batch_bytes_max is not None and len(data.records) > self.batch_bytes_max:
            code = errors.MESSAGE_TOO_LARGE
        if code < 0:
            raise Unreachable("lost", is_sent=True)
        first, read = len(log), read_records(bytes(data.records), 0)
        bad = [at for at, it in enumerate(read) if it.value == b"bad"]
        if bad:
            code = errors.INVALID_RECORD
        self.batches.append(len(read))
        if not code:
            log += [it.value for it in read]
            self.headers += [[*it.headers] for it in read]
        answer = ANSWER(index=data.index, error_code=code, base_offset=first)
        if bad:
            answer.error_message = f"record {bad[0]}: it is bad"
            answer.record_errors = [ANSWER.RecordError(batch_index=bad[0])]
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[answer])])


def lines_of(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(it).encode() + b"\n" for it in records)


async def produced(
    leaders: Any,
    parts: Sequence[bytes],
    *,
    is_whole: bool = True,
    pauses: bool = False,
    budgets: Budgets | None = None,
    is_read: bool = True,
) -> tuple[int, Any]:
    """Return the status and the body of the response to a body in parts, after which the client may be gone."""
    last = {"type": "http.request" if is_whole else "http.disconnect"}
    messages = iter([*({"type": "http.request", "body": part, "more_body": True} for part in parts), last])

    async def receive() -> dict[str, Any]:
        message = next(messages, last)
        if pauses and not message.get("body"):
            await asyncio.sleep(60)  # longer than any bound of this test
        return message

    request: Any = SimpleNamespace(receive=receive, scope={})
    begin(request.scope, budgets or Budgets())
    call = Call(leaders, {"topic": "t"}, None, None, request)
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async with asyncio.timeout(10):
        response = await produce_lines(call)
    await response({}, receive, send)  # type: ignore[arg-type]
    assert is_read == ([] == [*messages]), "whether the body was read to its end"
    return sent[0]["status"], json.loads(b"".join(it.get("body", b"") for it in sent))


async def _nothing_dropped(*_: object) -> None:
    """Stand for a client that sends nothing more."""


@pytest.fixture(autouse=True)
def known_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_lines, "topic_of", lambda call: TOPIC)


@given(body=st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"{}", b"long " * 9])).map(b"".join), data=st.data())
def test_lines_do_not_depend_on_the_parts_of_the_body(body: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=9)))
    parser = LineParser()

    found = [
        line for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True) for line in parser.feed(body[start:end])
    ]

    lines = body.split(b"\n")
    assert (lines if lines[-1] else lines[:-1]) == found + parser.end()


def test_a_line_without_an_end_is_not_held_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is passed on when it is too long, so that it is refused."""
    monkeypatch.setattr(record_lines, "LINE_BYTES_MAX", 10)
    parser = LineParser()

    assert [[], [], [b"12345678901"]] == [[*parser.feed(it)] for it in (b"12345", b"67890", b"1")]


def test_short_lines_are_not_all_in_memory() -> None:
    """They take twenty times the bytes of their part of the body."""
    part, lines = b"{}\n" * 100_000, 0
    tracemalloc.start()
    try:
        for _ in LineParser().feed(part):
            lines += 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert (100_000, True) == (lines, peak < 10_000)


def test_a_line_may_say_when_its_record_is_due() -> None:
    """On a timer topic; the line is named if it cannot be."""
    leaders = LeadersStub()
    leaders.config = compile_topic_config({"tidemill.kind": "timer"})
    good = {"value": "a", "partition": 0, "delay": "5m", "timer_id": "x", "headers": [["h", "1"]]}
    recurs = {"timer_id": "y", "schedule": "cron 0 8 * * *", "timezone": "Europe/Berlin", "missed": "none"}
    lines = lines_of(good, {"at": -1, "partition": 0}, {"partition": 0, **recurs})

    written = asyncio.run(produced(leaders, [lines]))
    refused = asyncio.run(produced(leaders, [lines_of({"delay": "5m", "at": 7})]))

    assert 200 == written[0]
    assert [
        [("h", b"1"), ("tidemill-delay", b"5m"), ("tidemill-timer-id", b"x")],
        [("tidemill-deliver-at", b"-1")],
        [(f"tidemill-{name.replace('_', '-')}", text.encode()) for name, text in recurs.items()],
    ] == leaders.headers
    assert (400, "line 1: delay and at: give one of them") == (refused[0], refused[1]["detail"])

    unknown = asyncio.run(produced(leaders, [lines_of({"missed": "two"})]))
    assert unknown[1]["detail"].endswith("Invalid enum value 'two' - at `$.missed`; use all, none or one")

    quoted = asyncio.run(produced(leaders, [lines_of({"delay": "unknown field"})]))
    assert quoted[1]["detail"].endswith("such as 5m"), "the value only looks as if a field were unknown"


@pytest.mark.parametrize("more", [{"timer_id": "x"}, {"headers": [["tidemill-timer-id", "x"]]}])
def test_an_id_needs_a_key_or_a_partition(more: dict[str, Any]) -> None:
    """A topic of several partitions would choose one by chance, in which the id is not that of an earlier record."""
    leaders = LeadersStub()
    leaders.config = compile_topic_config({"tidemill.kind": "timer"})

    written = asyncio.run(produced(leaders, [lines_of({"partition": 0, **more}, {"key": "", **more})]))
    refused = asyncio.run(produced(leaders, [lines_of(more)]))

    assert (200, 400) == (written[0], refused[0])
    assert "line 1: timer_id without key: " in refused[1]["detail"]


def test_few_schedules_are_parsed_in_one_turn_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes a while: other requests are served between some of them, whether they come in lines or as one body."""
    leaders = LeadersStub()
    leaders.config = compile_topic_config({"tidemill.kind": "timer"})
    turns, parse, sleep = [0], due_fields.parse_schedule, asyncio.sleep

    def counted(headers: Any) -> Any:
        turns[-1] += 1
        return parse(headers)

    async def slept(delay_s: float) -> None:
        turns.append(0)
        await sleep(delay_s)

    monkeypatch.setattr(due_fields, "parse_schedule", counted)
    monkeypatch.setattr(asyncio, "sleep", slept)
    schedules = [
        {"partition": 0, "timer_id": f"t{it}", "schedule": f"cron {it % 60} {it // 60} * 2 MON#5"} for it in range(300)
    ]

    written = asyncio.run(produced(leaders, [lines_of(*schedules)]))
    body = [records.NewRecord(**it) for it in schedules]
    asyncio.run(records._encoded(body, TOPIC, leaders, "records"))  # type: ignore[arg-type]

    assert (200, 300) == (written[0], written[1]["records"])
    assert 600 == sum(turns)
    assert max(turns) <= records.TIMERS_PER_TURN


def test_a_line_with_a_delay_needs_a_timer_topic() -> None:
    """The lines before it are written."""
    leaders = LeadersStub()

    status, answer = asyncio.run(produced(leaders, [lines_of({"value": "a", "partition": 0}, {"delay": 1})]))

    assert (400, [b"a"]) == (status, leaders.logs[0])
    assert "line 2: delay=1: the topic is of kind log" in answer["detail"]


def test_each_line_is_a_record() -> None:
    """Blank lines are none; the last line needs no end; consecutive ones of a partition are one run."""
    leaders = LeadersStub()
    body = lines_of({"value": "a", "partition": 2}, {"value": "b", "partition": 2}) + b"\n \r\n"
    body += lines_of({"value": "c", "partition": 0}) + b'{"value": {"json": [1]}, "partition": 2}'

    status, answer = asyncio.run(produced(leaders, [body[:30], body[30:]]))

    assert (200, {"records": 4, "written": [[2, 0, 2], [0, 0, 1], [2, 2, 1]]}) == (status, answer)
    assert {0: [b"c"], 1: [], 2: [b"a", b"b", b"[1]"]} == leaders.logs


def test_an_empty_body_writes_nothing() -> None:
    assert (200, {"records": 0, "written": []}) == asyncio.run(produced(LeadersStub(), [b"\n"]))


@pytest.mark.parametrize(
    ("line", "status", "says"),
    [
        (b"{", 400, "line 4: Input data was truncated"),
        (b"{} {}", 400, "line 4: JSON is malformed"),
        (b'{"value": 1}', 400, "line 4: Expected `str | object | null`, got `int` - at `$.value`"),
        (b'{"partition": 3}', 400, "line 4: topic t has no partition 3, only 0 to 2"),
        (b'{"key": {"base64": "!"}}', 400, "line 4: key: it is not base64"),
        (b'{"value": "\xff"}', 400, "line 4: "),
        (b'{"value": "' + b"x" * 2_000 + b'"}', 413, "line 4: it has more than 1000 bytes"),
    ],
)
def test_a_bad_line_ends_the_reading(monkeypatch: pytest.MonkeyPatch, line: bytes, status: int, says: str) -> None:
    """Lines before it are written, and the rest of the body is dropped."""
    monkeypatch.setattr(record_lines, "LINE_BYTES_MAX", 1_000)
    leaders = LeadersStub()
    good = lines_of({"value": "a", "partition": 0})

    found, answer = asyncio.run(produced(leaders, [good + b"\n" + good + line + b"\n" + good, good]))

    assert (status, 4, [[0, 0, 2]]) == (found, answer["line"], answer["written"])
    assert answer["detail"].startswith(says), answer
    assert [b"a", b"a"] == leaders.logs[0]


def test_too_many_lines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blank ones count, because they are remembered, too."""
    monkeypatch.setattr(record_lines, "LINES_MAX", 3)
    status, answer = asyncio.run(produced(LeadersStub(), [lines_of({}) + b"\n" + lines_of({}, {})]))

    assert (413, 4, 2) == (status, answer["line"], sum(it[2] for it in answer["written"]))


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [(errors.MESSAGE_TOO_LARGE, 413, "MESSAGE_TOO_LARGE"), (-1, 503, "REQUEST_TIMED_OUT")],
)
def test_a_refused_batch_is_a_run_of_null(code: int, status: int, error: str) -> None:
    """The line is that of its first record, and the records of other partitions are written."""
    leaders = LeadersStub()
    leaders.refused[1] = code
    numbers = (0, 1, 1, 2, 1)

    found, answer = asyncio.run(produced(leaders, [b"\n" + lines_of(*({"partition": it} for it in numbers))]))

    assert (status, error, 3) == (found, answer["error"], answer["line"])
    assert [[0, 0, 1], [None, None, 2], [2, 0, 1], [None, None, 1]] == answer["written"]


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_record_that_a_leader_refuses_has_its_number_in_the_request(
    monkeypatch: pytest.MonkeyPatch, is_cut: bool
) -> None:
    """The leader knows its place in a batch of one partition, behind other batches."""
    monkeypatch.setattr(topic_writer, "BATCH_BYTES", 100 if is_cut else 100_000)
    numbers, values = (0, 1, 1, 0, 2, 1, 0), ("a", "b", "c", "d", "e", "bad", "f")
    lines = [{"partition": number, "value": value} for number, value in zip(numbers, values, strict=True)]
    body = [records.NewRecord(**it) for it in lines]

    status, answer = asyncio.run(produced(LeadersStub(), [lines_of(*lines[:2]) + b"\n" + lines_of(*lines[2:])]))
    with pytest.raises(Refused) as refused:
        asyncio.run(records.produce_all(LeadersStub(), TOPIC, body, Taken(Budgets())))  # type: ignore[arg-type]

    assert (400, "INVALID_RECORD", "line 7: it is bad") == (status, answer["error"], answer["detail"])
    assert "records[5]: it is bad" == str(refused.value)
    assert "INVALID_RECORD" == json.loads(refused.value.answer.text)["error"]


def test_a_value_that_a_leader_refuses_has_no_number() -> None:
    """The request has one record, which is in no list."""
    record = (0, (None, b"bad", [], 0))

    with pytest.raises(Refused) as refused:
        asyncio.run(records.write_records(LeadersStub(), TOPIC, [record], Taken(Budgets())))  # type: ignore[arg-type]

    assert "it is bad" == str(refused.value)


def test_a_batch_has_as_many_schedules_as_a_leader_takes() -> None:
    """A request may have any number of them, between other records."""
    leaders, other = LeadersStub(), (None, b"", [], 0)
    recurs = (None, b"", [("h", b"1"), ("tidemill-schedule", b"every 1m")], 0)

    async def run() -> list[Any]:
        writer = TopicWriter(leaders, TOPIC, Budgets())  # type: ignore[arg-type]
        for record in (other, *[recurs] * 2 * BATCH_SCHEDULES_MAX, other, recurs):
            writer.add(0, record)
        await writer.finish()
        return [*writer.runs()]

    assert [(0, 0, 2 * BATCH_SCHEDULES_MAX + 3)] == asyncio.run(run())
    assert [BATCH_SCHEDULES_MAX + 1, BATCH_SCHEDULES_MAX + 1, 1] == leaders.batches


@pytest.mark.parametrize("unknown", [errors.REQUEST_TIMED_OUT, errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1])
@pytest.mark.parametrize("first", [0, 1])
def test_a_refusal_after_which_records_may_be_written_is_told_first(unknown: int, first: int) -> None:
    """Another partition has refused its records for certain; the client would send all of them again."""
    leaders = LeadersStub()
    leaders.refused = {first: unknown, 1 - first: errors.INVALID_RECORD}

    status, answer = asyncio.run(produced(leaders, [lines_of({"partition": 0}, {"partition": 1})]))

    name = "REQUEST_TIMED_OUT" if unknown < 0 else errors.name(unknown)
    assert (503, name, [[None, None, 2]]) == (status, answer["error"], answer["written"])


def test_runs_of_batches_between_those_of_others_are_apart() -> None:
    """Another producer has written between two batches of one partition."""
    leaders = LeadersStub()

    async def run() -> list[Any]:
        writer = TopicWriter(leaders, TOPIC, Budgets())  # type: ignore[arg-type]
        for value in (b"a", b"b"):
            writer.add(0, (None, value, (), 0))
        await writer.finish()
        leaders.logs[0].append(b"other")
        for value in (b"c", b"d"):
            writer.add(0, (None, value, (), 0))
        await writer.finish()
        return [*writer.runs()]

    assert [(0, 0, 2), (0, 3, 2)] == asyncio.run(run())


def test_records_without_key_and_partition_change_it_with_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_writer, "BATCH_BYTES", 500)
    leaders = LeadersStub()

    _, answer = asyncio.run(produced(leaders, [lines_of(*[{"value": "x" * 68}] * 20)]))

    assert [[1, 0, 5], [2, 0, 5], [0, 0, 5], [1, 5, 5]] == answer["written"]


def test_a_body_is_not_read_while_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leaders do not answer: a bounded number of bytes is taken, and the rest when they do."""
    monkeypatch.setattr(topic_writer, "WAITING_BYTES_MAX", 2_000)
    monkeypatch.setattr(topic_writer, "BATCH_BYTES", 1_000)
    leaders, part = LeadersStub(), lines_of(*[{"value": "x" * 100, "partition": 0}] * 5)
    taken = 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(100):
            taken += 1
            yield part

    async def run() -> None:
        leaders.is_open.clear()
        writer = TopicWriter(leaders, TOPIC, Budgets())  # type: ignore[arg-type]
        call: Any = SimpleNamespace(brokers=leaders, request=SimpleNamespace(scope={}))
        lines = record_lines._Lines(call, TOPIC, writer)
        reading = asyncio.ensure_future(lines.read(parts()))
        await asyncio.wait((reading,), timeout=0.2)
        assert (2, False) == (taken, reading.done())
        assert 1 == leaders.asked, "two batches of a partition are in flight, and may change their order"
        leaders.is_open.set()
        assert await reading is None
        await writer.finish()

    asyncio.run(run())

    assert (100, 500) == (taken, len(leaders.logs[0]))


def test_the_beginning_of_a_long_line_needs_memory() -> None:
    """Other requests have all of it: the lines before are written, and nothing more is read."""
    leaders, budgets = LeadersStub(), Budgets(body_bytes=BYTES_MAX)
    body = lines_of({"partition": 0}) + b"x" * (FREE_BYTES + 1)

    status, answer = asyncio.run(produced(leaders, [body, body], budgets=budgets, is_read=False))

    assert (503, 2, [[0, 0, 1]]) == (status, answer["line"], answer["written"])


def test_short_lines_wait_while_there_is_no_memory() -> None:
    """They are not refused, but written before more of them are taken."""
    leaders, part = LeadersStub(), lines_of(*[{"value": "x" * 100, "partition": 0}] * 200)
    assert len(part) > FREE_BYTES
    budgets = Budgets(body_bytes=BYTES_MAX)

    async def run() -> tuple[int, tuple[int, Any]]:
        leaders.is_open.clear()
        writing = asyncio.ensure_future(produced(leaders, [part] * 5, budgets=budgets))
        await asyncio.wait((writing,), timeout=0.2)
        waiting = leaders.waiting
        leaders.is_open.set()
        return waiting, await writing

    waiting, (status, answer) = asyncio.run(run())

    assert (200, 1_000) == (status, answer["records"])
    assert 0 < waiting < FREE_BYTES, "no more is decoded than every request may have"
    assert BYTES_MAX == budgets.body_bytes


def test_a_client_that_leaves_has_written_whole_lines() -> None:
    """The last line may be the beginning of a longer one, even if it looks like a record."""
    leaders = LeadersStub()

    status, answer = asyncio.run(produced(leaders, [lines_of({"partition": 0}) + b'{"partition": 0}'], is_whole=False))

    assert (400, 2, [[0, 0, 1]]) == (status, answer["line"], answer["written"])
    assert [None] == leaders.logs[0]


def test_a_body_that_pauses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its whole lines are written; so are those of a body that lasts too long."""
    for name in ("STREAM_PAUSE_S_MAX", "STREAM_S_MAX"):
        with monkeypatch.context() as patch:
            patch.setattr(calls, name, 0.05)

            status, answer = asyncio.run(produced(LeadersStub(), [lines_of({"partition": 0})], pauses=True))

        assert (408, 2, [[0, 0, 1]]) == (status, answer["line"], answer["written"])


@pytest.mark.parametrize(
    ("line", "is_open", "found"),
    [
        ({"partition": 0}, True, (503, None, 2, [[0, 0, 1]])),
        ({"partition": 0}, False, (503, "REQUEST_TIMED_OUT", 1, [[None, None, 1]])),
        ({"partition": 9}, True, (400, None, 1, [])),
    ],
)
def test_a_stop_of_the_broker_says_which_lines_are_written(
    monkeypatch: pytest.MonkeyPatch, line: dict[str, int], is_open: bool, found: tuple[Any, ...]
) -> None:
    """
    The client goes on at `line`.  It is told if lines were in flight and may be written, and if one was refused before.
    """
    monkeypatch.setattr(record_lines, "STOP_S_MAX", 0.05)
    leaders = LeadersStub()
    if not is_open:
        leaders.is_open.clear()

    async def run() -> tuple[int, Any]:
        sending = asyncio.ensure_future(produced(leaders, [lines_of(line)], pauses=True))
        await asyncio.sleep(0.05)
        sending.cancel()
        return await sending

    status, answer = asyncio.run(run())

    assert found == (status, answer.get("error"), answer["line"], answer["written"])


@pytest.mark.parametrize("pauses", [True, False])
def test_records_in_flight_are_awaited_when_the_broker_stops(monkeypatch: pytest.MonkeyPatch, pauses: bool) -> None:
    """Their leaders, on other brokers, answer within milliseconds; whether the body has arrived to its end or not."""
    monkeypatch.setattr(record_lines, "STOP_S_MAX", 60)
    monkeypatch.setattr(record_lines, "_drop", _nothing_dropped)
    leaders = LeadersStub()
    leaders.is_open.clear()

    async def run() -> tuple[int, Any]:
        sending = asyncio.ensure_future(produced(leaders, [lines_of({"partition": 0})], pauses=pauses))
        await asyncio.sleep(0.05)
        sending.cancel()
        await asyncio.sleep(0.05)
        leaders.is_open.set()
        return await sending

    status, answer = asyncio.run(run())

    assert (503, None, 2, [[0, 0, 1]]) == (status, answer.get("error"), answer["line"], answer["written"])


def test_the_rest_of_a_body_is_read_when_the_broker_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a moment: a client that sends everything before it reads would get the end of its connection instead."""
    monkeypatch.setattr(record_lines, "STOP_S_MAX", 0.05)
    line, pause = lines_of({"partition": 0}), b""

    async def run() -> tuple[int, Any]:
        sending = asyncio.ensure_future(produced(LeadersStub(), [line, pause, line, line], pauses=True, is_read=True))
        await asyncio.sleep(0.05)
        sending.cancel()
        return await sending

    status, answer = asyncio.run(run())

    assert (503, 2, [[0, 0, 1]]) == (status, answer["line"], answer["written"])


@pytest.mark.parametrize("is_led", [False, True])
def test_lines_that_no_leader_has_got_are_not_in_doubt(monkeypatch: pytest.MonkeyPatch, is_led: bool) -> None:
    """
    While a broker stops, it knows no leaders and reaches none.  Nothing is awaited, and the client may send the lines
    again.
    """
    monkeypatch.setattr(record_lines, "STOP_S_MAX", 60)
    monkeypatch.setattr(record_lines, "_drop", _nothing_dropped)
    leaders = LeadersStub()
    leaders.leaderless = set() if is_led else {0}
    leaders.unreachable = {0}

    async def run() -> tuple[int, Any]:
        sending = asyncio.ensure_future(produced(leaders, [lines_of({"partition": 1}, {"partition": 0})], pauses=True))
        await asyncio.sleep(0.05)
        sending.cancel()
        return await sending

    status, answer = asyncio.run(run())

    assert (503, None, 2) == (status, answer.get("error"), answer["line"])
    assert [[1, 0, 1], [None, None, 1]] == answer["written"]
    assert "from line on" in answer["detail"]


def test_blank_lines_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body of nothing else would take eight times its size, as long as its client keeps the request open."""
    kept: list[record_lines._Lines] = []

    class Recorded(record_lines._Lines):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            kept.append(self)

    monkeypatch.setattr(record_lines, "_Lines", Recorded)

    status, answer = asyncio.run(produced(LeadersStub(), [b"\n" * 1_000, b"{}\n", b"\n" * 1_000, b"{\n"]))

    assert (400, 2_002) == (status, answer["line"])
    assert [2, 2] == [len(it) for it in kept[0]._blank]


@pytest.mark.parametrize("is_known", [False, True])
def test_batches_fit_into_the_topic(is_known: bool) -> None:
    """
    Records are refused only if one of them alone is too large, also while this broker has not heard of the limit.
    """
    leaders = LeadersStub()
    leaders.batch_bytes_max = 2_000
    if is_known:
        leaders.config = compile_topic_config({"max.message.bytes": "2000"})
    good, bad = {"value": "x" * 300, "partition": 0}, {"value": "y" * 2_000, "partition": 0}

    written = asyncio.run(produced(leaders, [lines_of(*[good] * 20)]))
    asked = leaders.asked
    refused = asyncio.run(produced(leaders, [lines_of(good, good, bad)]))

    assert (200, [[0, 0, 20]]) == (written[0], written[1]["written"])
    assert is_known == (asked == 4)
    assert (413, 3, [[0, 20, 2], [None, None, 1]]) == (refused[0], refused[1]["line"], refused[1]["written"])


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_record_that_is_too_large_has_its_number_in_the_request(is_alone: bool) -> None:
    """Also if the batch that was refused first had others, behind which it may be."""
    leaders = LeadersStub()
    leaders.batch_bytes_max = 2_000
    good, elsewhere = {"value": "x" * 300, "partition": 0}, {"value": "", "partition": 1}
    given = [*([] if is_alone else [good] * 5), elsewhere, {"value": "y" * 2_000, "partition": 0}, elsewhere]
    body = [records.NewRecord(**it) for it in given]

    status, answer = asyncio.run(produced(leaders, [lines_of(*given)]))
    with pytest.raises(Refused) as refused:
        asyncio.run(records.produce_all(leaders, TOPIC, body, Taken(Budgets())))  # type: ignore[arg-type]

    at, problem = 1 if is_alone else 6, "partition 0 of topic t: MESSAGE_TOO_LARGE"
    assert (413, f"line {at + 1}: {problem}") == (status, answer["detail"])
    assert f"records[{at}]: {problem}" == str(refused.value)


def test_records_without_key_and_partition_go_where_a_leader_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_writer, "BATCH_BYTES", 500)
    leaders = LeadersStub()
    leaders.leaderless = {0, 1}

    status, answer = asyncio.run(produced(leaders, [lines_of(*[{"value": "x" * 68}] * 20)]))

    assert (200, [[2, 0, 20]]) == (status, answer["written"])
