"""
The HTTP endpoints as a plain ASGI application: `/health/live`, `/health/ready`, `/metrics`, and those of `cluster_api`.

All other paths belong to the console, which is an application of its own and is served to this machine only.  There are
few endpoints, so a dictionary is enough for routing; a framework would only delay the broker's start.  A broker is live
while its event loop runs and its storage has not failed; otherwise it must be restarted.  A broker is ready while it
serves Kafka clients, even if something is degraded; the response to `/health/ready` lists the problems.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from tidemill.http.access import Access
from tidemill.http.answer import RETRY_AFTER, Answer, Asgi, Receive, Scope, Send, json_answer, problem, send_answer
from tidemill.http.cluster_api import ClusterApi, ClusterState
from tidemill.http.unread_responses import UnreadResponses
from tidemill.telemetry.prometheus import CONTENT_TYPE

ONLY_THIS_MACHINE: Final = Access()
UNREAD_BYTES_MAX: Final = 16 << 20  # of responses of the console and about the cluster, until their clients take them
UNREAD_OF_HEALTH_BYTES_MAX: Final = 8 << 20  # of those of health and metrics
# The first parts of paths:
FOLDERS_OF_API: Final = ("v1", "openapi.json", "docs", "sandglass")
API_FOLDERS: Final = ("health", "metrics", *FOLDERS_OF_API)  # never passed to the console


class ObservableBroker(Protocol):
    """The part of a broker that the health and metrics endpoints use."""

    @property
    def is_live(self) -> bool: ...

    @property
    def is_ready(self) -> bool: ...

    def problems(self) -> Sequence[Mapping[str, object]]:
        """Return what is degraded, even while the broker serves clients; `docs/http.md` describes the fields."""
        ...

    def metrics_text(self) -> str | None:
        """Return the metrics in Prometheus's text format, or None before the broker has any metrics."""
        ...


class Application:
    def __init__(
        self,
        broker: ObservableBroker,
        state: Callable[[], ClusterState | None],
        console: Asgi | None = None,
        access: Access = ONLY_THIS_MACHINE,
        api: Asgi | None = None,
    ) -> None:
        """
        Serve the health and metrics of `broker`.  `state` returns the state of its cluster, or None while the broker
        does not know it yet.  `api` serves the other paths below `/v1`, and `console` all paths that do not belong to
        the API; without them, these return status 404.
        """
        self._api = api
        self._broker = broker
        self._access = access
        self._console = console
        self._cluster = ClusterApi(state)
        self._unread = UnreadResponses(UNREAD_BYTES_MAX)
        self._unread_of_health = UnreadResponses(UNREAD_OF_HEALTH_BYTES_MAX)  # others cannot take it
        self._routes: dict[str, Callable[[], Answer]] = {
            "/health/live": self._live,
            "/health/ready": self._ready,
            "/metrics": self._metrics,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # Web sockets and lifespan events are not supported.
            raise NotImplementedError(f"ASGI scope {scope['type']!r}")
        inner, refused = self._inner(scope)
        if inner is not None and inner is self._api and refused is None:
            await inner(scope, receive, send)
            return
        unread = self._unread_of_health if scope["path"] in self._routes else self._unread

        async def answered(scope: Scope, _: Receive, send: Send) -> None:
            await send_answer(refused or self._answer(scope), scope, send)

        await unread.serve(answered if inner is None or refused is not None else inner, scope, receive, send)

    def _inner(self, scope: Scope) -> tuple[Asgi | None, Answer | None]:
        """Return the application to which a path belongs, None if it is this one; and the response that refuses it."""
        path = scope["path"]
        folder = path.removeprefix("/").partition("/")[0]
        if folder in FOLDERS_OF_API:
            api = None if path in self._cluster.routes else self._api
            return api, self._access.refusal_of_api(scope)
        if self._console is None or folder in API_FOLDERS:
            return None, None
        return self._console, self._access.refusal_of_console(scope)

    def _answer(self, scope: Scope) -> Answer:
        method, path = scope["method"], scope["path"]
        paths = [*self._routes, *self._cluster.routes]
        if path not in paths:
            return problem(404, f"{path[:200]} is not a path; the paths are {', '.join(paths)}", paths=paths)
        if method not in ("GET", "HEAD"):
            refused = problem(405, f"{method} is not allowed at {path}; use GET")
            return refused._replace(headers=((b"allow", b"GET, HEAD"),))
        route = self._routes.get(path)
        return self._cluster.answer(scope) if route is None else route()

    def _live(self) -> Answer:
        live = self._broker.is_live
        return _told({"status": "live" if live else "failed"}, is_well=live)

    def _ready(self) -> Answer:
        ready = self._broker.is_live and self._broker.is_ready
        status = "ready" if ready else "not ready"
        return _told({"status": status, "problems": self._broker.problems()}, is_well=ready)

    def _metrics(self) -> Answer:
        text = self._broker.metrics_text()
        if text is None:
            waits = problem(503, "/metrics is not available until this broker has joined its cluster: try again later")
            return waits._replace(headers=RETRY_AFTER)
        return Answer(200, CONTENT_TYPE, text)


def _told(fields: object, *, is_well: bool) -> Answer:
    return json_answer(fields) if is_well else json_answer(fields, 503)._replace(headers=RETRY_AFTER)
