"""The requests of `/v1`: their routes, bodies, responses and problems.

A handler gets a `Call` and returns an instance of its route's response type, or raises `Refused`.  Bodies and responses
are msgspec types: they are checked while they are decoded, and the OpenAPI document is made of them.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive

from tidemill.http.access import refusal_of_type, type_of_body
from tidemill.http.answer import JSON_TYPE, Answer, problem
from tidemill.http.v1.brokers import Brokers
from tidemill.http.v1.budgets import Exhausted, taken_by
from tidemill.http.v1.decoded_bodies import memory_of
from tidemill.http.v1.legal import legal
from tidemill.http.v1.rights import Right

BODY_BYTES_MAX: Final = 1 << 20
BODY_S_MAX: Final = 30.0  # a slower body is refused: its connection would be kept for ever
LARGE_BYTES: Final = 64 << 10  # of memory that a decoded body takes: its response may take as much
STREAM_PAUSE_S_MAX: Final = 30.0  # likewise for a body of any length, if nothing of it comes for so long
STREAM_S_MAX: Final = 3_600.0  # and for all of it: the client learns only at the end what has been done


_NAMED: Final = re.compile(r"`\$\.(\w+)`")  # in msgspec's messages: the field that an error is about


class Refused(Exception):
    """A request is refused: `answer` is the response."""

    def __init__(self, status: int, detail: str, *, retry_after_s: int | None = None, **more: object) -> None:
        super().__init__(detail)
        self._given = status, detail, retry_after_s, more
        headers = () if retry_after_s is None else ((b"retry-after", str(retry_after_s).encode()),)
        self.answer = problem(status, detail, **more)._replace(headers=headers)

    def with_fields(self, **fields: object) -> "Refused":
        """Return the same refusal with further fields in its response."""
        status, detail, retry_after_s, more = self._given
        return Refused(status, detail, retry_after_s=retry_after_s, **{**more, **fields})


@dataclass(frozen=True, slots=True)
class Call:
    """A request that has been accepted and decoded."""

    brokers: Brokers
    names: Mapping[str, str]  # the variables in the path
    body: Any  # an instance of the route's body type; None if it has none, or if the handler reads it
    query: Any  # likewise
    request: Request


T = TypeVar("T")
Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    method: str
    path: str  # with variables in braces
    access: tuple[Right, ...]  # what the caller must be allowed to do, in the order of the checks
    handler: Handler
    body: type[msgspec.Struct] | None = None
    example: Mapping[str, object] | None = None  # of the body
    body_type: str = JSON_TYPE  # the handler itself reads a body of another type, from the request
    query: type[msgspec.Struct] | None = None
    response: type[msgspec.Struct] | None  # None: the response has no body
    status: int = 200
    refusal: Callable[[Answer], Answer] = lambda answer: answer  # returns how this path answers a refused request
    media_types: tuple[str, ...] = ()  # of a handler that returns an ASGI application, such as a stream; else JSON
    empty_status: int | None = None  # of a response without a body, if such an application may send one
    summary: str
    gives: Mapping[str, str] = field(default_factory=dict)
    """Where the response has values for other routes: JSON pointers, by variables of paths or members of bodies."""

    @property
    def name(self) -> str:
        """The name of the operation, such as `queues_receive`."""
        module = self.handler.__module__.rpartition(".")[2]
        return f"{module}_{self.handler.__qualname__}"


async def respond(routes: Mapping[str, Route], brokers: Brokers, request: Request) -> Response:
    """
    Decode a request, call its handler, and return the response.  `routes` are those of its path and method, by the type
    of the body.
    """
    route = routes.get(type_of_body(request.scope), routes[JSON_TYPE])
    try:
        if (refused := refusal_of_type(request.scope, routes)) is not None:
            return response_of(route.refusal(refused))
        is_decoded = route.body_type == JSON_TYPE
        data = await read_body(request) if is_decoded and route.body is not None else None
        work = _answered(route, brokers, request, data)
        return await (_while_connected(request, work) if is_decoded else work)
    except (Refused, Exhausted) as refusal:
        return _refused(route, refusal)


async def _answered(route: Route, brokers: Brokers, request: Request, data: bytes | None) -> Response:
    """Return the response to a request with this body, if its route has one that is decoded for the handler."""
    async with taken_by(request).budgets.decoded.room_for(data or b""):
        try:
            return await _handled(route, brokers, request, data)
        except (Refused, Exhausted) as refusal:  # its frames refer to what was decoded, so it may not leave this room
            return _refused(route, refusal)


async def _handled(route: Route, brokers: Brokers, request: Request, data: bytes | None) -> Response:
    """Return the response of a route's handler.  Raise Refused or Exhausted."""
    taken, query = taken_by(request), _query(route.query, request)
    if data is not None and memory_of(data) > LARGE_BYTES:
        taken.response(0)  # before it has had an effect: the response may be large, too, and will be held
    body = None if data is None or route.body is None else _decoded(route.body, data)
    found = await route.handler(Call(brokers, request.path_params, body, query, request))
    if route.media_types:
        return found  # type: ignore[no-any-return]
    headers = {"cache-control": "no-store"}
    if route.response is None:
        return Response(None, route.status, headers)
    encoded = msgspec.json.encode(found)
    if request.method == "GET":  # it can be repeated, while the others have had an effect
        taken.response(len(encoded))
    else:
        taken.hold(len(encoded))
    return Response(encoded, route.status, headers, JSON_TYPE)


def _refused(route: Route, refusal: Refused | Exhausted) -> Response:
    refused = busy(refusal) if isinstance(refusal, Exhausted) else refusal
    return response_of(route.refusal(refused.answer))


def busy(exhausted: Exhausted) -> Refused:
    return Refused(503, str(exhausted), retry_after_s=1)


def response_of(answer: Answer) -> Response:
    status, content_type, text, more = answer
    headers = {name.decode(): value.decode("latin-1") for name, value in more}
    return Response(text, status, headers | {"cache-control": "no-store"}, content_type)


async def read_body(request: Request, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """Return the body.  Raise Refused for one that is too large or too slow."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > bytes_max:
        raise _too_large(bytes_max)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S_MAX):
            async for part in request.stream():
                body += part
                taken_by(request).body(len(body))
                if len(body) > bytes_max:
                    raise _too_large(bytes_max)
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {BODY_S_MAX:.0f} s; send it at once") from None
    except ClientDisconnect:
        raise Refused(400, "the connection was closed before the body had arrived") from None
    return bytes(body)


async def body_parts(request: Request) -> AsyncIterator[bytes]:
    """Yield a body of any length as it comes.  Raise Refused for one that pauses or lasts too long."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + STREAM_S_MAX
    has_more = True
    while has_more:
        try:
            async with asyncio.timeout_at(min(loop.time() + STREAM_PAUSE_S_MAX, ends_at)):
                message = await request.receive()
        except TimeoutError:
            what = f"paused for {STREAM_PAUSE_S_MAX:.0f} s" if loop.time() < ends_at else f"took {STREAM_S_MAX:.0f} s"
            raise Refused(408, f"the body {what}; end it, and send the rest in another request") from None
        if message["type"] == "http.disconnect":
            raise Refused(400, "the connection was closed before the body had arrived")
        yield message.get("body", b"")
        has_more = message.get("more_body", False)


def _too_large(bytes_max: int) -> Refused:
    return Refused(413, f"the body has more than {bytes_max} bytes; divide it among several requests")


def _decoded(body: type[msgspec.Struct], data: bytes) -> Any:
    try:
        return msgspec.json.decode(data or b"{}", type=body)
    except msgspec.ValidationError as error:
        raise Refused(400, f"the body is not as this path needs it: {error}{legal(body, error)}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON: {error}") from error


def _query(query: type[msgspec.Struct] | None, request: Request) -> Any:
    """Return the query's parameters.  Raise Refused for an unknown, repeated or illegal one."""
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise Refused(400, f"{name[:100]}={value[:100]} repeats a parameter; leave one out")
        given[name] = value
    if query is None:
        if given:
            raise Refused(400, f"{next(iter(given))[:100]} is not a parameter: this path has none")
        return None
    try:
        return msgspec.convert(given, query, strict=False)
    except msgspec.ValidationError as error:
        named = _NAMED.search(str(error))
        value = f" is {given[named[1]][:100]!r}" if named is not None and named[1] in given else ""
        raise Refused(400, f"the query is not as this path needs it: {error}{value}{legal(query, error)}") from error


async def _while_connected(request: Request, work: Awaitable[T]) -> T:
    """Return the result of `work`, which is cancelled when the client disconnects."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(disconnected(request.receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))  # it may have to undo something
            raise Refused(400, "the connection was closed before the response")
        return working.result()
    finally:
        leaving.cancel()
        working.cancel()
        del working  # an exception refers to this frame: with the task, it would keep all it has read until the next gc


async def disconnected(receive: Receive) -> None:
    """Return when the client has disconnected.  The body of the request has been read, or is dropped."""
    while (await receive())["type"] != "http.disconnect":
        pass
