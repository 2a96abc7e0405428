"""The HTTP door as a plain ASGI application: `/health/live`, `/health/ready`, `/metrics`.

Three answers need no framework: routing is a dictionary, and the broker starts 0.2 s earlier without one.
Live: the process turns and its storage has not failed; when not, restart it.  Ready: it serves Kafka clients now.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Protocol

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Answer = tuple[int, str, str]  # status, content type, text

PROMETHEUS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
JSON_TYPE: Final = "application/json"


class Observed(Protocol):
    """What this door asks of a broker."""

    @property
    def is_live(self) -> bool: ...

    @property
    def is_ready(self) -> bool: ...

    def metrics_text(self) -> str:
        """In Prometheus' text format."""
        ...


class Application:
    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._routes: dict[str, Callable[[], Answer]] = {
            "/health/live": self._live,
            "/health/ready": self._ready,
            "/metrics": self._metrics,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # neither web sockets nor lifespan: who starts us knows when we end
            raise NotImplementedError(f"ASGI scope {scope['type']!r}")
        status, content_type, text = self._answer(scope["method"], scope["path"])
        body = text.encode()
        headers = [
            (b"content-type", content_type.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
        ]
        if status == 405:
            headers.append((b"allow", b"GET, HEAD"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _answer(self, method: str, path: str) -> Answer:
        route = self._routes.get(path)
        if route is None:
            return 404, JSON_TYPE, _json(error=f"no such path: {path[:200]}", paths=list(self._routes))
        if method not in ("GET", "HEAD"):
            return 405, JSON_TYPE, _json(error=f"{method} is not allowed here; use GET")
        return route()

    def _live(self) -> Answer:
        live = self._observed.is_live
        return (200 if live else 503), JSON_TYPE, _json(status="live" if live else "failed")

    def _ready(self) -> Answer:
        ready = self._observed.is_live and self._observed.is_ready
        return (200 if ready else 503), JSON_TYPE, _json(status="ready" if ready else "not ready")

    def _metrics(self) -> Answer:
        return 200, PROMETHEUS_TYPE, self._observed.metrics_text()


def _json(**fields: object) -> str:
    return json.dumps(fields) + "\n"
