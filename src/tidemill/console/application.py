"""The console as an ASGI application.  It serves every request, because `http` passes on only those from this machine.

The pages work without JavaScript.  With it, htmx reloads the content every few seconds.  The content security policy
allows only files from this server, and no inline scripts or styles, so that nothing that a record contains can run.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from math import isnan
from typing import Any, Final
from urllib.parse import urlencode

from anyio import CapacityLimiter, to_thread
from anyio.to_thread import current_default_thread_limiter
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from tidemill.console import broker_pages, group_pages, queue_pages, record_page, topic_pages
from tidemill.console.cluster_view import ClusterView
from tidemill.console.site import Page, Site
from tidemill.model.clock import Clock

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

THREADS_MAX: Final = 8  # pages that are rendered at the same time; further requests wait
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}
PAGES: Final[dict[str, Page]] = {
    "/": broker_pages.overview,
    "/brokers": broker_pages.brokers,
    "/shards": broker_pages.shards,
    "/topics": topic_pages.topics,
    "/topics/{topic}": topic_pages.topic,
    "/queues": queue_pages.queues,
    "/queue": queue_pages.queue,  # with the parameters `group` and `topic`
    "/groups": group_pages.groups,
    "/group": group_pages.group,  # with the parameter `id`: an id may contain any characters, even "/" and ".."
}

RECORDS_PATH: Final = "/topics/{topic}/{partition:int}"


class Console:
    def __init__(self, view: Callable[[], ClusterView | None], clock: Clock) -> None:
        """`view` returns the broker's view of its cluster, or None while the broker does not know it yet."""
        site = Site(view, clock)

        async def charts(_request: Request) -> Response:
            columns = site.history()
            return JSONResponse({name: [_or_none(it) for it in column] for name, column in columns.items()})

        async def missing(_request: Request, error: Exception) -> Response:
            assert isinstance(error, HTTPException)
            return site.plain(error.status_code, f"{error.detail}.")

        async def group(request: Request) -> Response:
            group_id = request.path_params["group"]
            return RedirectResponse(f"/group?{urlencode({'id': group_id})}" if group_id else "/groups")

        self._application = Starlette(
            routes=[
                *(Route(path, site.endpoint(page)) for path, page in PAGES.items()),
                Route(RECORDS_PATH, _in_turn(site.endpoint(record_page.records))),
                Route("/groups/{group:path}", group),  # for users who expect an address like that of a topic
                Route("/charts.json", charts),
                Mount("/static", StaticFiles(packages=[("tidemill.console", "static")])),
            ],
            exception_handlers={HTTPException: missing},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_static = scope["path"].startswith("/static/")
        added = HEADERS | ({"cache-control": "no-cache"} if is_static else {})  # browsers check their copy by its ETag

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", ()),
                    *((name.encode(), value.encode()) for name, value in added.items()),
                ]
            await send(message)

        current_default_thread_limiter().total_tokens = THREADS_MAX
        await self._application(scope, receive, send_with_headers)


def _in_turn(page: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
    """
    Return an endpoint that renders one page at a time: it may have megabytes of text, which take several times their
    size while they become HTML, and as much of the heap of each thread that has ever done so.
    """
    turn = CapacityLimiter(1)

    async def answer(request: Request) -> Response:
        return await to_thread.run_sync(page, request, limiter=turn)

    return answer


def _or_none(number: float) -> float | None:
    """Return `number`, rounded for JSON; None for NaN, which JSON does not have."""
    return None if isnan(number) else round(number, 3)
