"""Runs uvicorn in the broker's event loop.  uvicorn is imported only at the first HTTP connection."""

import asyncio
import logging
import socket
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tidemill.app.listeners import Address
from tidemill.broker.rate_limited_events import RateLimitedEvents
from tidemill.broker.wrong_port_events import WrongPortEvents
from tidemill.model.clock import Clock
from tidemill.telemetry.event_log import EventLog
from tidemill.wire.first_bytes import ClientProtocol

if TYPE_CHECKING:
    from tidemill.http.application import Application

SWEEP_S: Final = 1.0  # interval between sweeps for slow connections
RECEIVED_BYTES_MAX: Final = 64 << 10  # that the kernel holds for a connection
BACKLOG: Final = 128
DRAIN_S: Final = 1  # for requests in progress at a stop; the entire stop must take less than two seconds
IMPORTED_IN_TURN: Final = ("logging.config", "click", "h11", "uvicorn")
"""uvicorn's imports, divided into short parts, so that the loop can serve Kafka clients between them (decision 12)."""


class HttpListener:
    """Serves HTTP: `bind` binds the port, `serve` lets the first connection start the server, and `stop` stops it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, events: EventLog, clock: Clock) -> None:
        self._loop = loop
        self._log = _LogAsEvents(events, clock)
        self._wrong_port = WrongPortEvents(events, clock)
        self._socket: socket.socket | None = None
        self._kafka_port: Callable[[], int | None] = lambda: None
        self._server: Any = None
        self._starting: asyncio.Task[None] | None = None
        self._serving: asyncio.Task[None] | None = None
        self._sweeping: asyncio.TimerHandle | None = None

    def bind(self, address: Address) -> Address:
        """Bind the port and return the address with the actual port.  Connections wait in the backlog until `serve`."""
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        bound = socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES_MAX)  # of each connection, too
        bound.setblocking(False)
        self._socket = bound
        return Address(address.host, bound.getsockname()[1])

    def serve(self, application: "Callable[[], Application]", kafka_port: Callable[[], int | None]) -> None:
        """Serve `application`.  `kafka_port` returns the port that Kafka clients should use, once it is open.

        The server is imported at the first connection, so that importing it does not delay the start of the broker,
        and because a broker without HTTP clients does not need it (decision 12).
        """
        assert self._socket is not None
        self._kafka_port = kafka_port
        self._loop.add_reader(self._socket, self._on_first_connection, self._socket, application)

    def _on_first_connection(self, bound: socket.socket, application: "Callable[[], Application]") -> None:
        self._loop.remove_reader(bound)
        self._starting = self._loop.create_task(self._start(application))
        self._starting.add_done_callback(asyncio.Task.result)  # passes an exception to the loop's exception handler

    async def _start(self, application: "Callable[[], Application]") -> None:
        for name in IMPORTED_IN_TURN:
            import_module(name)
            await asyncio.sleep(0)
        from tidemill.app.http_server import server_of

        self._log.begin()
        self._server = server_of(application(), self._refused, self._log.refused, DRAIN_S)
        # `Server.serve` is not used: it would replace the broker's handlers for SIGINT and SIGTERM.
        await self._server.startup(sockets=[self._socket])
        self._serving = self._loop.create_task(self._server.main_loop())
        self._sweep()

    def _sweep(self) -> None:
        """Close the connections that are too slow, again and again."""
        for connection in [*self._server.server_state.connections]:
            connection.check(self._loop.time())
        self._sweeping = self._loop.call_later(SWEEP_S, self._sweep)

    def _refused(self, arrived: ClientProtocol, client_host: str) -> None:
        port = self._socket.getsockname()[1] if self._socket is not None else None
        self._wrong_port.on_http_port(arrived, client_host, port=port, kafka_port=self._kafka_port())

    async def stop(self) -> None:
        """Stop serving and close the port.  Further calls have no effect."""
        if self._starting is not None:
            await asyncio.wait((self._starting,))
        elif self._socket is not None:
            self._loop.remove_reader(self._socket)
        if self._sweeping is not None:
            self._sweeping.cancel()
        if self._serving is not None:
            self._server.should_exit = True
            await self._serving
            self._serving = None
            self._log.is_stopping = True
            await self._server.shutdown(sockets=[self._socket])
            answering = self._server.server_state.tasks  # cancelled by now; each sends the end of its response
            if answering:
                await asyncio.wait(answering, timeout=DRAIN_S)
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._log.end()


class _LogAsEvents(logging.Handler):
    """Turns uvicorn's log records about internal errors and malformed requests into events.

    Events about malformed requests are rate-limited, because any client can cause them.
    """

    def __init__(self, events: EventLog, clock: Clock) -> None:
        super().__init__(logging.WARNING)
        self.is_stopping = False  # uvicorn then warns about the requests that still wait, which is no problem
        self._events = events
        self._refusals = RateLimitedEvents(clock)
        self._logger = logging.getLogger("uvicorn")

    def begin(self) -> None:
        self._logger.addHandler(self)
        self._logger.propagate = False  # otherwise the records would also go to stderr, unformatted

    def end(self) -> None:
        """Detach from uvicorn's logger.  Further calls have no effect."""
        self._logger.removeHandler(self)
        self._logger.propagate = True

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, ConnectionError):
            self._events.failure("http request failed", error)
        elif not self.is_stopping:
            self.refused(str(error or record.getMessage()))

    def refused(self, problem: str) -> None:
        if self._refusals.may_log():
            self._events.warning("http request refused", problem=problem)
