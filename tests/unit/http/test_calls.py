"""Queries and bodies that are not as a path needs them, and what bodies take."""

import asyncio
import weakref
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta
from starlette.requests import Request

from tidemill.http.answer import JSON_TYPE
from tidemill.http.v1.budgets import RESPONSE_BYTES_MAX, Budgets, Exhausted, begin
from tidemill.http.v1.calls import LARGE_BYTES, Call, Refused, Route, _decoded, _query, respond
from tidemill.http.v1.decoded_bodies import BYTES_MAX, ITEM_MEMORY


class Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(le=10)] = 1
    after: str = ""


def request_of(query: str) -> Request:
    return Request({"type": "http", "query_string": query.encode(), "headers": []})


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("limit=11", "<= 10 - at `$.limit` is '11'"),
        ("limit=many", "`$.limit` is 'many'"),
        ("limt=3", "unknown field `limt`; the names are limit, after"),
        ("limit=1&limit=2", "limit=2 repeats"),
    ],
)
def test_a_query_is_refused_with_the_name_and_the_value(query: str, shown: str) -> None:
    with pytest.raises(Refused) as refused:
        _query(Fields, request_of(query))

    assert (400, True) == (refused.value.answer.status, shown in str(refused.value))


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"nam": 1}', "unknown field `nam`; the names are limit, after"),
        (b'{"limit": 11}', "$.limit"),
        (b"{", "not JSON"),
    ],
)
def test_a_body_is_refused_with_the_name(body: Any, shown: str) -> None:
    with pytest.raises(Refused) as refused:
        _decoded(Fields, body)

    assert (400, True) == (refused.value.answer.status, shown in str(refused.value))


class Listed(msgspec.Struct, frozen=True, weakref=True):
    items: list[Fields]


class Served:
    """A route that counts its calls, and requests for it."""

    def __init__(self) -> None:
        self.budgets = Budgets()
        self.calls = 0
        self.problem: type[Exhausted] | None = None  # with which each call is refused
        self.bodies: list[weakref.ref[Any]] = []  # of the calls
        self.alive: list[int] = []  # how many bodies of earlier calls there still were, at each call
        self._route = Route(
            method="POST", path="/items", access=(), handler=self._handle, body=Listed, response=Fields, summary=""
        )

    async def _handle(self, call: Call) -> Fields:
        self.calls += 1
        self.alive.append(sum(it() is not None for it in self.bodies))
        self.bodies.append(weakref.ref(call.body))
        if self.problem is not None:
            raise self.problem("there is no room")
        return Fields()

    async def status(self, items: int) -> int:
        """Send so many empty items, and return the status of the response."""
        parts = [{"type": "http.request", "body": b'{"items": [' + b",".join([b"{}"] * items) + b"]}"}]

        async def receive() -> dict[str, Any]:
            return parts.pop() if parts else await asyncio.Future()

        scope = {"type": "http", "method": "POST", "headers": [(b"content-type", JSON_TYPE.encode())]}
        scope |= {"query_string": b"", "path_params": {}, "path": "/items"}
        with begin(scope, self.budgets):
            response = await respond({JSON_TYPE: self._route}, None, Request(scope, receive))  # type: ignore[arg-type]
        return response.status_code


def test_a_body_is_not_decoded_before_there_is_memory() -> None:
    """A small one does not wait."""

    async def run() -> None:
        served = Served()
        async with served.budgets.decoded.room_for(b"{" * (BYTES_MAX // ITEM_MEMORY)):
            assert 200 == await served.status(1)
            large = asyncio.create_task(served.status(100))
            await asyncio.wait((large,), timeout=0.05)
            assert (1, False) == (served.calls, large.done())
        assert (200, 2, 0) == (await large, served.calls, served.budgets.decoded.bytes)

    asyncio.run(run())


def test_a_large_body_has_no_effect_while_too_many_responses_are_not_read() -> None:
    """Its response may be large, too, and could not be refused afterwards."""

    async def run() -> None:
        served = Served()
        served.budgets.response_bytes = RESPONSE_BYTES_MAX + 1
        assert (503, 0) == (await served.status(LARGE_BYTES // ITEM_MEMORY + 1), served.calls)
        assert (200, 1) == (await served.status(1), served.calls)

    asyncio.run(run())


def test_a_body_is_gone_when_the_next_one_gets_its_memory() -> None:
    """Although the error of a refused request refers to the frames that have its body."""

    async def run() -> None:
        served = Served()
        served.problem = Exhausted
        crowd = [served.status(BYTES_MAX // ITEM_MEMORY) for _ in range(4)]
        assert [503] * 4 == await asyncio.gather(*crowd)
        assert [0] * 4 == served.alive

    asyncio.run(run())
