"""Imports the console at the first request for one of its pages, so that until then it costs neither time nor memory.

The imports are divided into parts of about 10 ms each, so that the loop can serve Kafka clients between them.  Decision
12 explains why they are not imported in a thread.
"""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tidemill.broker.broker import Broker
from tidemill.model.clock import Clock

if TYPE_CHECKING:
    from tidemill.console.application import Console

IMPORTED_IN_TURN: Final = (
    "markupsafe",
    "jinja2.lexer",
    "jinja2",
    "anyio",
    "anyio._backends._asyncio",
    "starlette.requests",
    "starlette.staticfiles",
    "starlette.applications",
    "tidemill.client.raw_fetcher",
    "tidemill.console.application",
)


class LazyConsole:
    """An ASGI application: the console, which is imported at the first request."""

    def __init__(self, broker: Callable[[], Broker | None], clock: Clock) -> None:
        """Show the cluster of the broker that `broker()` returns; it returns None while the process waits to join."""
        self._broker = broker
        self._clock = clock
        self._console: Console | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._console is None:
            for name in IMPORTED_IN_TURN:
                import_module(name)
                await asyncio.sleep(0)
        if self._console is None:  # another request may have imported it in the meantime
            self._console = _console(self._broker, self._clock)
        await self._console(scope, receive, send)


def _console(broker: Callable[[], Broker | None], clock: Clock) -> "Console":
    from tidemill.app.console_view import ConsoleView
    from tidemill.console.application import Console

    view: ConsoleView | None = None

    def viewed() -> ConsoleView | None:
        nonlocal view
        known = broker()
        if view is None and known is not None and known.image.cluster_id:
            view = ConsoleView(known)
        return view

    return Console(viewed, clock)
