"""Runs uvicorn in the broker's event loop.  uvicorn is imported only at the first HTTP connection."""

import asyncio
import logging
import socket
import sys
from collections.abc import Callable, Collection, Iterable
from http import HTTPStatus
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tidemill.app.connection_pace import HEAD_S_MAX, ConnectionPace
from tidemill.app.listeners import Address
from tidemill.broker.rate_limited_events import RateLimitedEvents
from tidemill.broker.wrong_port_events import WrongPortEvents
from tidemill.model.clock import Clock
from tidemill.telemetry.event_log import EventLog
from tidemill.wire.first_bytes import ClientProtocol, protocol_of

if TYPE_CHECKING:
    from tidemill.http.application import Application

ANSWERED_MAX: Final = 64  # connections beyond the most that are served: they get status 503, further ones nothing
EVICTED_AFTER_S: Final = 1.0  # without a request, while few connections are left: a client sends one within this time
CHUNKS_MAX: Final = 16_384  # of a body, in one read of up to 256 KiB: parsing more would block the event loop
SWEEP_S: Final = 1.0  # interval between sweeps for slow connections
RECEIVED_BYTES_MAX: Final = 64 << 10  # that the kernel holds for a connection, and so what one read may bring
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
        self._log.begin()
        self._server = _server(application(), self._refused, self._log.refused)
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


def _server(
    application: "Application", refused: Callable[[ClientProtocol, str], None], log: Callable[[str], None]
) -> Any:
    import h11
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from tidemill.http.admission import CONNECTIONS_MAX, HEAD_BYTES_MAX, RESERVED, Admission
    from tidemill.http.answer import problem

    class StrictConnection(h11.Connection):
        """Also refuses other versions of HTTP, and many tiny chunks."""

        chunks = 0  # in what the socket has received at once

        def next_event(self) -> Any:
            event = super().next_event()
            if isinstance(event, h11.Data):
                self.chunks += 1
                if self.chunks > CHUNKS_MAX:
                    raise h11.RemoteProtocolError(f"More than {CHUNKS_MAX} chunks in a row are tiny; send larger ones.")
            elif isinstance(event, h11.Request) and event.http_version not in (b"1.0", b"1.1"):
                raise h11.RemoteProtocolError("This port serves HTTP/1.1 only.", error_status_hint=505)
            return event

    class HttpProtocol(H11Protocol):
        """A connection that begins with another protocol is refused, and a slow one is closed by `check`."""

        is_checked = False

        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.conn: StrictConnection = StrictConnection(h11.SERVER, HEAD_BYTES_MAX)

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            now = self.loop.time()
            self.pace = ConnectionPace(now)
            excess = len(self.connections) - (CONNECTIONS_MAX - RESERVED)
            if excess > 0 and not _evict(self.connections, excess, now) and excess > RESERVED + ANSWERED_MAX:
                transport.abort()

        @property
        def is_answering(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def data_received(self, data: bytes) -> None:
            if not self.is_checked:
                self.is_checked = True
                arrived = protocol_of(data)
                if arrived in (ClientProtocol.TLS, ClientProtocol.KAFKA):
                    refused(arrived, self.client[0] if self.client else "")
                    self.send_400_response(f"This port serves HTTP without TLS, not {arrived}.")
                    return
            self.conn.chunks = 0
            if self.conn.their_state is h11.IDLE:  # h11 checks the size of a head only as long as it is not complete
                super().data_received(data[: HEAD_BYTES_MAX + 1])
                data = data[HEAD_BYTES_MAX + 1 :]
            if data and not self.transport.is_closing():
                super().data_received(data)

        def on_response_complete(self) -> None:
            self.pace.responded(self.loop.time())
            super().on_response_complete()

        def check(self, now: float) -> None:
            """Close the connection if the client is too slow."""
            is_closing = self.transport.is_closing()
            if self.pace.is_stuck(now, unsent=self.transport.get_write_buffer_size(), is_closing=is_closing):
                self.transport.abort()
            elif not is_closing and self.pace.is_slow(now, is_answering=self.is_answering):
                self.end(408, f"the head of a request did not arrive within {HEAD_S_MAX:.0f} s; send it at once")

        def send_400_response(self, msg: str) -> None:
            """Refuse what is no HTTP request; uvicorn calls this while it handles h11's error."""
            error = sys.exception()
            self.end(getattr(error, "error_status_hint", 400), msg if error is None else f"{msg} {error}")

        def end(self, status: int, detail: str) -> None:
            """Close the connection, with a response if the client has sent anything that has had none."""
            if self.is_answering:
                self.cycle.disconnected = True  # what the application sends now has no addressee
                self.cycle.message_event.set()
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and (self.conn.trailing_data[0] or status != 408):
                answer = problem(status, detail)
                body = answer.text.encode()
                size = str(len(body))
                headers = [("content-type", answer.content_type), ("content-length", size), ("connection", "close")]
                head = h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase)
                for event in (head, h11.Data(body), h11.EndOfMessage()):
                    self.transport.write(self.conn.send(event))
            self.transport.close()

    config = uvicorn.Config(
        Admission(application, lambda: _count(server.server_state.connections), log),
        http=HttpProtocol,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN_S,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    return server


def _count(connections: Collection[Any]) -> int:
    """Return how many connections are open; those that are closing right now do not count."""
    return sum(not it.transport.is_closing() for it in connections)


def _evict(connections: Iterable[Any], count: int, now: float) -> bool:
    """
    Close up to `count` connections without a request in progress, which makes room for others: those that have waited
    longest.  Return whether there were any.
    """
    idle = [it for it in connections if not (it.is_answering or it.transport.is_closing())]
    waiting = [it for it in idle if now - it.pace.waits_since > EVICTED_AFTER_S]
    for connection in sorted(waiting, key=lambda it: it.pace.waits_since)[:count]:
        connection.transport.close()
    return bool(waiting)
