"""How records are sent over HTTP: in requests of several, without one that is written twice."""

import asyncio
import time
from base64 import b64decode
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from tidemill.sdk import http_sender
from tidemill.sdk.http_sender import HttpSender
from tidemill.sdk.problems import BrokersUnavailable, OutcomeUnknown, RequestRefused, SendFailed
from tidemill.sdk.record import NewRecord, Sent

Outcome = Sequence[Any] | Exception
"""What a request returns: the places of its records, or an exception."""


class Api:
    """Answers each request with what `answer` returns for the values of its records; or as a topic of one partition."""

    def __init__(self, answer: Callable[[list[str]], Outcome | None] = lambda _: None) -> None:
        self.requests: list[list[str]] = []
        self.bodies: list[Any] = []
        self.answer = answer
        self.go = asyncio.Event()  # until then, requests are in flight
        self.go.set()
        self.is_asked = asyncio.Event()
        self.end = 0

    async def call(self, _: str, path: str, body: Any, *, is_repeatable: bool, timeout_s: float) -> Any:
        assert not is_repeatable
        found = [http_sender.msgspec.json.decode(bytes(it)) for it in body["records"]]
        values = [b64decode(it["value"]["base64"]).decode() for it in found]
        self.requests.append(values)
        self.is_asked.set()
        self.bodies.append(found)
        if not path.startswith("/v1/topics/other/"):
            await self.go.wait()
        outcome = self.answer(values)
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is None:
            outcome = [(0, self.end + at) for at in range(len(values))]
            self.end += len(values)
        return {"records": [{"partition": partition, "offset": offset} for partition, offset in outcome]}


def record(value: str, topic: str = "t") -> NewRecord:
    return NewRecord(topic, None, value.encode(), [], None, None)


async def outcomes(sent: Sequence[Future[Sent]]) -> list[Any]:
    """Return offsets, and the texts of exceptions."""
    found = await asyncio.gather(*map(asyncio.wrap_future, sent), return_exceptions=True)
    return [it.offset if isinstance(it, Sent) else str(it) for it in found]


def run(test: Callable[[HttpSender, Api], Awaitable[Any]], api: Callable[[], Api] = Api, timeout_s: float = 5) -> Any:
    async def running() -> Any:
        found = api()
        return await test(HttpSender(found, asyncio.get_running_loop(), timeout_s), found)  # type: ignore[arg-type]

    return asyncio.run(running())


def sent_at_once(
    values: Sequence[str], answer: Callable[[list[str]], Outcome | None]
) -> tuple[list[Any], list[list[str]]]:
    """Return the outcomes of records that are in one request, and the requests."""

    async def test(sender: HttpSender, api: Api) -> tuple[list[Any], list[list[str]]]:
        return await outcomes([sender.begin(record(it)) for it in values]), api.requests

    found: tuple[list[Any], list[list[str]]] = run(test, lambda: Api(answer))
    return found


def test_what_waits_travels_together_in_its_order() -> None:
    async def test(sender: HttpSender, api: Api) -> Any:
        api.go.clear()
        sent = [sender.begin(record("0"))]
        await api.is_asked.wait()
        sent += [sender.begin(record(str(it))) for it in range(1, 100)]
        await asyncio.sleep(0.05)
        in_flight = len(api.requests)
        api.go.set()
        return in_flight, await outcomes(sent), api.requests

    assert (1, [*range(100)], [["0"], [str(it) for it in range(1, 100)]]) == run(test)


def test_a_record_has_what_it_was_given() -> None:
    async def test(sender: HttpSender, api: Api) -> Any:
        await outcomes([sender.begin(NewRecord("t", b"k", b"v", [("a", b"\xff"), ("b", None)], 3, 5))])
        return api.bodies

    base64 = [{"base64": "aw=="}, {"base64": "dg=="}, {"base64": "/w=="}]
    one = {"key": base64[0], "value": base64[1], "headers": [["a", base64[2]], ["b", None]]}
    assert [[one | {"partition": 3, "timestamp": 5}]] == run(test)


def test_a_request_has_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_sender, "RECORDS_MAX", 3)
    monkeypatch.setattr(http_sender, "BODY_BYTES_MAX", 200)
    values = ["a", "b", "c", "d", "e" * 1_000, "f", "g" * 70, "h" * 70]

    found, requests = sent_at_once(values, lambda _: None)

    assert [*range(8)] == found
    assert [["a", "b", "c"], ["d"], [values[4]], ["f", values[6]], [values[7]]] == requests


@pytest.mark.parametrize(("bound", "value"), [("BUFFERED_MAX", 2), ("BUFFERED_BYTES_MAX", 60)])
def test_a_full_buffer_takes_no_record(monkeypatch: pytest.MonkeyPatch, bound: str, value: int) -> None:
    """There is room again when records are written."""
    monkeypatch.setattr(http_sender, bound, value)

    async def test(sender: HttpSender, _: Api) -> Any:
        sent = [sender.begin(record("a")), sender.begin(record("b"))]
        with pytest.raises(BufferError):
            sender.begin(record("c"))
        await outcomes(sent)
        return await outcomes([sender.begin(record("c"))])

    assert [2] == run(test)


def test_a_record_larger_than_the_buffer_is_sent_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_sender, "BUFFERED_BYTES_MAX", 60)

    assert [0] == sent_at_once(["a" * 100], lambda _: None)[0]


def test_only_what_is_not_written_is_sent_again() -> None:
    """A partition of the request has no leader for a while."""
    refused = RequestRefused(
        503, "no leader", {"error": "LEADER_NOT_AVAILABLE", "written": [[0, 7], None, [0, 8], None]}
    )

    found, requests = sent_at_once(
        ["a", "b", "c", "d"], lambda values: refused if len(values) == 4 else [(1, 1), (1, 2)]
    )

    assert [7, 1, 8, 2] == found
    assert [["a", "b", "c", "d"], ["b", "d"]] == requests


@pytest.mark.parametrize("status", [400, 413])
def test_a_wrong_record_fails_alone(status: int) -> None:
    """The others are written in their order."""
    taken: list[str] = []

    def answer(values: list[str]) -> Outcome:
        if "bad" in values:
            return RequestRefused(status, "no delay", {})
        taken.extend(values)
        return [(0, int(it)) for it in values]

    found, _ = sent_at_once(["0", "1", "2", "bad", "4", "5", "6"], answer)

    assert [0, 1, 2, "a record was not written to topic t: no delay", 4, 5, 6] == found
    assert ["0", "1", "2", "4", "5", "6"] == taken


def test_a_topic_that_does_not_exist_fails_all_at_once() -> None:
    found, requests = sent_at_once(["a", "b"], lambda _: RequestRefused(404, "no such topic", {}))

    assert ["a record was not written to topic t: no such topic"] * 2 == found
    assert [["a", "b"]] == requests


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (
            RequestRefused(503, "late", {"error": "REQUEST_TIMED_OUT"}),
            "a record may have been written to topic t: late",
        ),
        (
            RequestRefused(503, "few", {"error": "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}),
            "may have been written to topic t: f",
        ),
        (RequestRefused(504, "status 504: <html>", {}), "a record may have been written to topic t: status 504"),
        (OutcomeUnknown("lost"), "a record may have been written to topic t: lost; look for it before"),
        (BrokersUnavailable("no broker"), "a record was not written to topic t: no broker"),
    ],
)
def test_a_failure_says_whether_a_record_may_be_written(problem: Exception, says: str) -> None:
    """It is not sent again."""
    found, requests = sent_at_once(["a", "b"], lambda _: problem)

    assert all(says in it for it in found), found
    assert [["a", "b"]] == requests


def test_of_a_request_that_timed_out_some_are_written() -> None:
    fields = {"error": "REQUEST_TIMED_OUT", "written": [None, [3, 9]]}

    found, _ = sent_at_once(["a", "b"], lambda _: RequestRefused(503, "late", fields))

    assert 9 == found[1]
    assert "may have been written" in found[0]


def test_the_next_records_are_sent_after_a_failure() -> None:
    async def test(sender: HttpSender, _: Api) -> Any:
        first = await outcomes([sender.begin(record("lost"))])
        return first, await outcomes([sender.begin(record("a"))])

    first, second = run(test, lambda: Api(lambda values: OutcomeUnknown("lost") if values == ["lost"] else None))

    assert "may have been written" in first[0]
    assert [0] == second


def test_a_topic_does_not_wait_for_another_one() -> None:
    async def test(sender: HttpSender, api: Api) -> Any:
        api.go.clear()
        waiting = sender.begin(record("a"))
        other = await outcomes([sender.begin(record("b", "other"))])
        is_waiting = not waiting.done()
        api.go.set()
        return other, is_waiting, await outcomes([waiting])

    assert ([0], True, [1]) == run(test)


def test_a_record_that_has_waited_too_long_is_not_sent() -> None:
    async def test(sender: HttpSender, api: Api) -> Any:
        api.go.clear()
        sent = [sender.begin(record("a"))]
        await api.is_asked.wait()
        sent.append(sender.begin(record("b")))
        await asyncio.sleep(0.3)
        api.go.set()
        found = await outcomes(sent)
        return found, api.requests, await outcomes([sender.begin(record("c"))])

    found, requests, later = run(test, timeout_s=0.1)

    assert [0, "a record was not written to topic t: the requests before it have taken more than 0.1 s"] == found
    assert (["a"], [1]) == (requests[0], later)


def test_a_flush_lasts_no_longer_than_it_may() -> None:
    """A record is written even if its caller does not wait."""

    async def test(sender: HttpSender, api: Api) -> Any:
        api.go.clear()
        sent = [sender.begin(record("a")) for _ in range(3)]
        began_at = time.monotonic()
        left = await asyncio.to_thread(sender.flush, 0.3)
        lasted_s = time.monotonic() - began_at
        is_cancelled = sent[0].cancel()
        api.go.set()
        return left, 0.3 <= lasted_s < 5, is_cancelled, await asyncio.to_thread(sender.flush, 5), await outcomes(sent)

    assert (3, True, False, 0, [0, 1, 2]) == run(test)


def test_a_close_waits_for_the_records_that_wait() -> None:
    async def test(sender: HttpSender, _: Api) -> Any:
        sent = [sender.begin(record("a")) for _ in range(3)]
        await asyncio.to_thread(sender.close)
        with pytest.raises(ValueError, match="the client is closed"):
            sender.begin(record("b"))
        return [it.result(0).offset for it in sent]

    assert [0, 1, 2] == run(test)


def test_what_is_left_at_the_end_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads may wait for it."""
    monkeypatch.setattr(http_sender, "FLUSH_S_MAX", 0.2)

    async def test(sender: HttpSender, api: Api) -> Any:
        api.go.clear()
        sent = [sender.begin(record("a"))]
        await api.is_asked.wait()
        sent.append(sender.begin(record("b")))
        with pytest.raises(SendFailed, match="2 records were not written within"):
            await asyncio.to_thread(sender.close)
        return [str(it.exception(0)) for it in sent]

    first, second = run(test)

    assert first.startswith("a record may have been written to topic t: the client was closed")
    assert second.startswith("a record was not written to topic t: the client was closed")
