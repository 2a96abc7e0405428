"""Imports `/v1` at the first request for one of its paths, so that until then it costs neither time nor memory.

The imports are divided into parts, so that the loop can serve Kafka clients between them (decision 12).
"""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tidemill.broker.broker import Broker

if TYPE_CHECKING:
    from tidemill.http.v1.application import Api

IMPORTED_IN_TURN: Final = (
    "anyio",
    "anyio._backends._asyncio",
    "starlette.requests",
    "starlette.routing",
    "msgspec",
    "msgspec.json",
    "tidemill.client.oauth_token",
    "tidemill.client.share_client",
    "tidemill.http.v1.topics",
    "tidemill.http.v1.record_lines",
    "tidemill.http.v1.streams",
    "tidemill.http.v1.timers",
    "tidemill.http.v1.queues",
    "tidemill.http.v1.application",
)


class LazyApi:
    """An ASGI application: the API, which is imported at the first request."""

    def __init__(self, broker: Callable[[], Broker | None], version: str) -> None:
        self._broker = broker
        self._version = version
        self._api: Api | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._api is None:
            for name in IMPORTED_IN_TURN:
                import_module(name)
                await asyncio.sleep(0)
        if self._api is None:  # another request may have imported it in the meantime
            from tidemill.http.v1.application import Api

            self._api = Api(self._broker, self._version)
        await self._api(scope, receive, send)
