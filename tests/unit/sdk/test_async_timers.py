"""What waits in timer topics, in the Python client: the requests that it sends, and what it returns."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tidemill.sdk.async_timers import AsyncTimers, Waiting

DUE_MS = 1_800_000_000_000
DUE = datetime(2027, 1, 15, 8, tzinfo=UTC)


def record(arrival: int, **fields: Any) -> dict[str, Any]:
    return {
        "partition": 3,
        "arrival": arrival,
        "due": DUE_MS + arrival,
        "timer_id": None,
        "timestamp": None,
        "size": 70,
        "key": None,
        "headers": [],
        **fields,
    }


class Api:
    """Answers requests with `responses`, in turn."""

    def __init__(self, *responses: dict[str, Any]) -> None:
        self.responses = [*responses]
        self.requests: list[tuple[str, str, Any, dict[str, Any]]] = []

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> dict[str, Any]:
        self.requests.append((method, path, body, options))
        return self.responses.pop(0)

    def queries(self) -> list[dict[str, list[str]]]:
        return [parse_qs(urlsplit(path).query) for _, path, _, _ in self.requests]


def ask(api: Api, work: Callable[[AsyncTimers], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        return await work(AsyncTimers(api, "a b"))  # type: ignore[arg-type]

    return asyncio.run(run())


def test_a_list_has_all_pages() -> None:
    """
    Each page continues where the last one ended, with what is left of the limit.
    """
    api = Api({"records": [record(1), record(2)], "cursor": "c"}, {"records": [record(3)], "cursor": None})

    found = ask(api, lambda timers: timers.list(key="k&", due_before=DUE, partition=0, limit=5, values=True))

    assert [1, 2, 3] == [it.arrival for it in found]
    first, second = api.queries()
    assert {"key": ["k&"], "due_before": [f"{DUE_MS}"], "partition": ["0"], "limit": ["5"], "values": ["true"]} == first
    assert {**first, "limit": ["3"], "cursor": ["c"]} == second
    assert "/v1/topics/a%20b/timers" == urlsplit(api.requests[0][1]).path


def test_a_list_ends_at_its_limit() -> None:
    api = Api({"records": [record(1)], "cursor": "c"})

    assert 1 == len(ask(api, lambda timers: timers.list(limit=1)))
    assert 1 == len(api.requests)


def test_a_list_chooses_by_the_bytes_that_a_record_has() -> None:
    api = Api({"records": [], "cursor": None})

    ask(api, lambda timers: timers.list(timer_id="ä".encode(), key=b"k", key_prefix=b""))

    query = urlsplit(api.requests[0][1]).query
    assert {"id": ["ä"], "key": ["k"], "key_prefix": [""], "limit": ["1000"]} == parse_qs(query, keep_blank_values=True)


def test_a_list_chooses_by_times_before_1973() -> None:
    """
    Brokers would take digits for seconds.
    """
    api = Api({"records": [], "cursor": None})

    ask(api, lambda timers: timers.list(due_before=datetime(1970, 1, 2, tzinfo=UTC)))

    assert ["1970-01-02T00:00:00+00:00"] == api.queries()[0]["due_before"]


@pytest.mark.parametrize("name", ["timer_id", "key", "key_prefix"])
def test_a_list_by_bytes_that_a_query_cannot_say_is_an_error(name: str) -> None:
    """
    A broker would take them for other text, and find nothing.
    """
    api, choice = Api(), {name: b"\xff"}

    with pytest.raises(ValueError, match=f"{name}=b'.xff'"):
        ask(api, lambda timers: timers.list(**choice))  # type: ignore[arg-type]
    assert [] == api.requests


@pytest.mark.parametrize("name", ["timer_id", "key", "key_prefix"])
@pytest.mark.parametrize(
    "work",
    [
        lambda timers, choice: timers.list(**choice),
        lambda timers, choice: timers.cancel(**choice),
        lambda timers, choice: timers.reschedule(delay="1h", **choice),
    ],
    ids=["list", "cancel", "reschedule"],
)
def test_a_choice_by_text_that_utf_8_cannot_represent_is_an_error(
    work: Callable[[AsyncTimers, Any], Awaitable[Any]], name: str
) -> None:
    """The message names the argument and the fix, as that of `send` does."""
    api = Api()

    with pytest.raises(ValueError, match=rf"^{name}='.ud800': use text that UTF-8 can represent"):
        ask(api, lambda timers: work(timers, {name: "\ud800"}))
    assert [] == api.requests


def test_a_record_has_bytes_and_times() -> None:
    given = record(
        1, timer_id="id", key={"base64": "/w=="}, value="v", headers=[["h", None]], timestamp=DUE_MS
    )  # fmt: skip

    (found,) = ask(Api({"records": [given], "cursor": None}), lambda timers: timers.list())

    assert (
        Waiting(
            topic="a b",
            partition=3,
            arrival=1,
            due=DUE + timedelta(milliseconds=1),
            timer_id=b"id",
            timestamp=DUE,
            size=70,
            key=b"\xff",
            value=b"v",
            headers=(("h", None),),
        )
        == found
    )


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"timer_id": "a"}, {"ids": ["a"]}),
        ({"timer_id": ["a", b"\xff"]}, {"ids": ["a", {"base64": "/w=="}]}),
        ({"key": b"k", "due_from": DUE}, {"key": {"base64": "aw=="}, "due_from": DUE_MS}),
        ({"key_prefix": "k", "partition": 0}, {"key_prefix": "k", "partition": 0}),
        ({"all": True}, {"all": True}),
        ({}, {}),
    ],
)
def test_a_cancel_chooses_records(choice: dict[str, Any], expected: dict[str, Any]) -> None:
    """
    Without a choice, the broker refuses the request.
    """
    api = Api({"cancelled": 2})

    assert 2 == ask(api, lambda timers: timers.cancel(**choice))
    assert [("POST", "/v1/topics/a%20b/timers:cancel", expected, {})] == api.requests


def test_listed_records_are_cancelled_by_their_numbers() -> None:
    api = Api({"records": [record(1), record(2)], "cursor": None}, {"cancelled": 2})

    async def work(timers: AsyncTimers) -> int:
        return await timers.cancel(*await timers.list())

    assert 2 == ask(api, work)
    assert {"arrivals": [[3, 1], [3, 2]]} == api.requests[-1][2]


def test_records_of_another_topic_are_not_changed() -> None:
    """
    Their numbers are those of other records here.
    """
    api = Api({"records": [record(1)], "cursor": None})

    async def elsewhere(timers: AsyncTimers) -> None:
        found = await timers.list()
        others = AsyncTimers(api, "other")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="topic a b, not of other"):
            await others.cancel(*found)
        with pytest.raises(ValueError, match="topic a b, not of other"):
            await others.reschedule(*found, delay="1h")

    ask(api, elsewhere)
    assert 1 == len(api.requests)


@pytest.mark.parametrize(
    ("change", "expected", "is_repeatable"),
    [
        ({"at": DUE}, {"at": DUE_MS}, True),
        ({"at": datetime(1970, 1, 1, 8, tzinfo=UTC)}, {"at": "1970-01-01T08:00:00+00:00"}, True),
        ({"delay": "5m"}, {"delay": 300_000}, True),
        ({"delay": 0}, {"delay": 0}, True),
        ({"shift": "-5m"}, {"shift": -300_000}, False),
        ({"shift": 1.5}, {"shift": 1_500}, False),
        ({"shift": -1.5}, {"shift": -1_500}, False),
        ({"shift": timedelta(hours=-1)}, {"shift": -3_600_000}, False),
        ({"shift": "+5m"}, {"shift": 300_000}, False),
    ],
)
def test_a_reschedule_says_when(change: dict[str, Any], expected: dict[str, Any], is_repeatable: bool) -> None:
    """
    A shift is not sent again if its outcome is unknown, because it would move the records twice.
    """
    api = Api({"rescheduled": 1})

    assert 1 == ask(api, lambda timers: timers.reschedule(timer_id="a", **change))
    path, body = "/v1/topics/a%20b/timers:reschedule", {"ids": ["a"], **expected}
    assert [("POST", path, body, {"is_repeatable": is_repeatable})] == api.requests


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, "give exactly one"),
        ({"at": DUE, "delay": 1}, "give exactly one"),
        ({"at": datetime(2027, 1, 1)}, "at=.*time zone"),  # noqa: DTZ001
        ({"delay": "-5m"}, "delay='-5m'"),
        ({"shift": "soon"}, "shift='soon'"),
        ({"shift": "--5m"}, "shift='--5m'"),
        ({"shift": [1]}, r"shift=\[1\]: use a duration"),
        ({"shift": True}, "shift=True: use a duration"),
        ({"shift": "-3000000d"}, "shift='-3000000d': use a duration from -253402300799999 ms to 253402300799999 ms"),
        ({"shift": timedelta(days=-3_000_000)}, r"shift=datetime.timedelta\(days=-3000000\): use a duration from -"),
        ({"shift": -3e11}, "shift=-300000000000.0: use a duration from -"),
        ({"at": DUE, "due_from": datetime(2027, 1, 1)}, "due_from=.*time zone"),  # noqa: DTZ001
    ],
)
def test_a_time_that_cannot_be_one_is_an_error(change: dict[str, Any], problem: str) -> None:
    api = Api()

    with pytest.raises(ValueError, match=problem):
        ask(api, lambda timers: timers.reschedule(timer_id="a", **change))
    assert [] == api.requests


@pytest.mark.parametrize("given", ["ann-1", ["ann-1"], [record(1)], None])
def test_what_is_no_record_is_named_with_the_fix(given: Any) -> None:
    """
    An id without its name, and a list of records without the star.
    """
    api, works = Api(), [AsyncTimers.cancel, AsyncTimers.reschedule]

    for work in works:
        with pytest.raises(TypeError, match=r"use timer_id=…, or pass records of list with \*"):
            ask(api, lambda timers, work=work: work(timers, given))
    assert [] == api.requests


def test_a_list_of_many_records_is_named_shortly() -> None:
    api = Api({"records": [record(number) for number in range(1_000)], "cursor": None})

    async def work(timers: AsyncTimers) -> None:
        found = await timers.list()
        with pytest.raises(TypeError, match=r"\[.*Waiting.*\]: use timer_id=") as problem:
            await timers.cancel(found)  # type: ignore[arg-type]
        assert len(str(problem.value)) < 400

    ask(api, work)
    assert 1 == len(api.requests)


@pytest.mark.parametrize(
    ("choice", "kind", "problem"),
    [
        ({"timer_id": ["a", "b"]}, TypeError, r"timer_id=\['a', 'b'\]: use text or bytes; list chooses by one id only"),
        ({"key": 5}, TypeError, "key=5: use text or bytes"),
        ({"key_prefix": True}, TypeError, "key_prefix=True: use text or bytes"),
        ({"limit": None}, TypeError, "limit=None: use a number of records"),
        ({"limit": 1.5}, TypeError, "limit=1.5: use a number of records"),
        ({"limit": -1}, ValueError, "limit=-1: use a number of records, from 0 on"),
    ],
)
def test_a_list_by_what_no_record_has_is_an_error(choice: dict[str, Any], kind: type[Exception], problem: str) -> None:
    """
    A broker would find nothing.
    """
    api = Api()

    with pytest.raises(kind, match=problem):
        ask(api, lambda timers: timers.list(**choice))
    assert [] == api.requests


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        ({"timer_id": 5}, "timer_id=5: use text or bytes"),
        ({"timer_id": ["a", 5]}, "timer_id=5: use text or bytes"),
        ({"key": 5}, "key=5: use text or bytes"),
        ({"key_prefix": ["a"]}, r"key_prefix=\['a'\]: use text or bytes"),
    ],
)
def test_a_change_by_what_no_record_has_is_an_error(choice: dict[str, Any], problem: str) -> None:
    api = Api()

    with pytest.raises(TypeError, match=problem):
        ask(api, lambda timers: timers.cancel(**choice))
    assert [] == api.requests
