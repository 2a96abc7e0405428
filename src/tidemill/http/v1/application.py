"""The ASGI application of `/v1`, except for the paths of `cluster_api`."""

import asyncio
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.routing import Route as Path

from tidemill.broker.broker import Broker
from tidemill.http.access import DOCS_PATH
from tidemill.http.answer import JSON_TYPE, RETRY_AFTER, Answer, problem
from tidemill.http.sending import HeadSent, in_parts
from tidemill.http.v1 import (
    cluster_level,
    cluster_operations,
    group_offsets,
    groups,
    openapi,
    partition_reads,
    queues,
    raw_values,
    rebalance,
    record_lines,
    records,
    sandglass,
    sandglass_schema,
    streams,
    timers,
    topics,
)
from tidemill.http.v1.brokers import Brokers
from tidemill.http.v1.budgets import Budgets, Exhausted, begin, taken_by
from tidemill.http.v1.calls import Route, busy, respond, response_of
from tidemill.http.v1.rights import CONSUME
from tidemill.model import errors

ROUTES: Final[tuple[Route, ...]] = tuple(
    route
    for module in (
        topics,
        records,
        record_lines,
        raw_values,
        partition_reads,
        streams,
        timers,
        queues,
        groups,
        group_offsets,
        cluster_level,
        cluster_operations,
        rebalance,
    )
    for route in module.ROUTES
)
NAMED_FREELY: Final = "/{timer_id}"


class Api:
    def __init__(self, broker: Callable[[], Broker | None], version: str) -> None:
        """
        Serve the broker that `broker()` returns; it returns None while the process waits to join a cluster.  `version`
        is that of the program.
        """
        self._broker = broker
        self._brokers: Brokers | None = None
        self._version = version
        self._documents: dict[str, Response] = {}  # by path
        self._documenting = asyncio.Lock()
        self._budgets = Budgets()
        by_path: dict[tuple[str, str], dict[str, Route]] = {}
        for route in (*ROUTES, *sandglass.ROUTES):
            by_path.setdefault((route.path, route.method), {})[route.body_type] = route
        self._paths = [(_path(path, method, by_type), by_type) for (path, method), by_type in by_path.items()]

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        with begin(scope, self._budgets):
            try:
                response = await self._response(scope, receive)
            except asyncio.CancelledError:  # the HTTP server cancels what still waits when the broker stops
                response = _refused(scope, _stopping(scope["method"])._replace(headers=RETRY_AFTER))
            with suppress(HeadSent):
                await response(scope, receive, in_parts(send, scope["method"]))

    async def _response(self, scope: MutableMapping[str, Any], receive: Any) -> Response:
        allowed: set[str] = set()
        if scope["path"] in (openapi.PATH, DOCS_PATH):
            if scope["method"] in ("GET", "HEAD"):
                return await self._documented(Request(scope))
            allowed.add("GET")
        for path, by_type in self._paths:
            match, found = path.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                return await self._routed(by_type, Request(scope, receive))
            if match is Match.PARTIAL:
                allowed.add(by_type[JSON_TYPE].method)
        shown = scope["path"][:200]
        if not allowed:
            return _refused(scope, problem(404, f"{shown} is not a path; docs/http.md lists the paths"))
        names = ", ".join(sorted(allowed))
        refused = problem(405, f"{scope['method']} is not allowed at {shown}; use {names}")
        return _refused(scope, refused._replace(headers=((b"allow", names.encode()),)))

    async def _documented(self, request: Request) -> Response:
        """Return the document of the API, or its page."""
        async with self._documenting:
            if not self._documents:
                self._documents = await asyncio.to_thread(_documents, self._version)  # it takes a tenth of a second
        found = self._documents[request.scope["path"]]
        try:
            taken_by(request).response(len(found.body))
        except Exhausted as exhausted:
            return response_of(busy(exhausted).answer)
        return found

    async def _routed(self, routes: Mapping[str, Route], request: Request) -> Response:
        broker = self._broker()
        if broker is None or not broker.is_ready:
            refused = problem(503, "this broker does not serve clients yet: try again, or ask another broker")
            return _refused(request.scope, refused._replace(headers=RETRY_AFTER))
        if self._brokers is None:
            self._brokers = Brokers(broker)
        return await respond(routes, self._brokers, request)


def _stopping(method: str) -> Answer:
    """Return the response to a request that a stop of the broker has interrupted.  A write may have had its effect."""
    if method in ("GET", "HEAD"):
        return problem(503, "this broker stops: send the request to another broker, or again later")
    unknown = "this broker stops, and it is not known whether the request had its effect: ask another broker"
    return problem(503, unknown, error=errors.name(errors.REQUEST_TIMED_OUT))


def _refused(scope: MutableMapping[str, Any], answer: Answer) -> Response:
    """Return the response to a request that no route has answered, in the form of its folder."""
    is_sandglass = f"{scope['path']}/".startswith(sandglass.FOLDER)
    return response_of(sandglass_schema.refusal(answer) if is_sandglass else answer)


def _documents(version: str) -> dict[str, Response]:
    """Return the responses of /openapi.json and /docs."""
    from tidemill.http.v1 import docs_page

    document = openapi.document(ROUTES, version)
    text, headers = docs_page.render(document)
    return {
        openapi.PATH: Response(msgspec.json.encode(document), media_type=JSON_TYPE),
        DOCS_PATH: Response(text, 200, headers, "text/html"),
    }


def _path(path: str, method: str, by_type: Mapping[str, Route]) -> Path:
    found = Path(_with_slashes(path), _no_endpoint, methods=[method])
    if found.methods is not None and any(route.access == CONSUME for route in by_type.values()):
        found.methods.discard("HEAD")  # it would lease messages that no one gets
    return found


def _with_slashes(path: str) -> str:
    """
    Return a path whose last part may have slashes, if it is what users name freely: a server decodes `%2F` before it
    looks for the path.
    """
    return f"{path[:-1]}:path}}" if path.endswith(NAMED_FREELY) else path


async def _no_endpoint(_: Request) -> Response:
    raise NotImplementedError("`Api` calls the handlers of its routes itself")
