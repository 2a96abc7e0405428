"""uvicorn inside our running loop: its one import site, reached when somebody asks."""

import asyncio
import logging
import socket
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tidemill.app.listeners import Address
from tidemill.broker.rate_limited_events import RateLimitedEvents
from tidemill.model.clock import Clock
from tidemill.telemetry.event_log import EventLog

if TYPE_CHECKING:
    from tidemill.http.application import Application

CONNECTIONS_MAX: Final = 1_024  # scrapers and health checks; whoever comes after them is answered with 503
BACKLOG: Final = 128
DRAIN_S: Final = 1  # stopping must take less than two seconds in all
IMPORTED_IN_TURN: Final = ("logging.config", "click", "h11", "uvicorn")
"""Parts of what uvicorn imports, of 10 to 20 ms each: Kafka clients have their turns in between.  In a thread it would
take seconds beside a busy loop, for each file that is read gives the GIL away."""


class HttpListener:
    """`bind` takes the port at once, so that it can be told; `serve` waits for the first who asks; `stop` ends it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, events: EventLog, clock: Clock) -> None:
        self._loop = loop
        self._log = _LogAsEvents(events, clock)
        self._socket: socket.socket | None = None
        self._server: Any = None
        self._starting: asyncio.Task[None] | None = None
        self._serving: asyncio.Task[None] | None = None

    def bind(self, address: Address) -> Address:
        """The address with the port that was found.  Connections wait in the backlog until `serve`."""
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        bound = socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
        bound.setblocking(False)
        self._socket = bound
        return Address(address.host, bound.getsockname()[1])

    def serve(self, application: "Callable[[], Application]") -> None:
        """
        Answer whoever comes.  What that takes is imported for the first: 0.1 s and 1.5 MB that a start, its first
        Kafka clients, and a broker that nobody watches do without.
        """
        assert self._socket is not None
        self._loop.add_reader(self._socket, self._first_came, self._socket, application)

    def _first_came(self, bound: socket.socket, application: "Callable[[], Application]") -> None:
        self._loop.remove_reader(bound)
        self._starting = self._loop.create_task(self._start(application))
        self._starting.add_done_callback(asyncio.Task.result)  # what went wrong is told by the loop's handler

    async def _start(self, application: "Callable[[], Application]") -> None:
        for name in IMPORTED_IN_TURN:
            import_module(name)
            await asyncio.sleep(0)
        self._log.begin()
        self._server = _server(application())
        # Not `serve`: that one would take over SIGINT and SIGTERM, which are the broker's.
        await self._server.startup(sockets=[self._socket])
        self._serving = self._loop.create_task(self._server.main_loop())

    async def stop(self) -> None:
        """Idempotent."""
        if self._starting is not None:
            await asyncio.wait((self._starting,))
        elif self._socket is not None:
            self._loop.remove_reader(self._socket)
        if self._serving is not None:
            self._server.should_exit = True
            await self._serving
            self._serving = None
            await self._server.shutdown(sockets=[self._socket])
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._log.end()


class _LogAsEvents(logging.Handler):
    """What uvicorn logs: requests that are none, which anybody can send at will, and mistakes of ours."""

    def __init__(self, events: EventLog, clock: Clock) -> None:
        super().__init__(logging.WARNING)
        self._events = events
        self._refusals = RateLimitedEvents(clock)
        self._logger = logging.getLogger("uvicorn")

    def begin(self) -> None:
        self._logger.addHandler(self)
        self._logger.propagate = False  # else it would be written to stderr, too, as it is

    def end(self) -> None:
        """Idempotent."""
        self._logger.removeHandler(self)
        self._logger.propagate = True

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self._events.failure("http request failed", error)
        elif self._refusals.may_tell():
            self._events.warning("http request refused", problem=record.getMessage())


def _server(application: "Application") -> Any:
    import uvicorn

    config = uvicorn.Config(
        application,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=DRAIN_S,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    return server
