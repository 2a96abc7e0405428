"""uvicorn's server and its connections, with bounds of their own.

This module is imported only at the first HTTP connection, because it imports uvicorn.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Collection, Iterable
from http import HTTPStatus
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tidemill.app.connection_pace import HEAD_S_MAX, ConnectionPace
from tidemill.http.admission import CONNECTIONS_MAX, HEAD_BYTES_MAX, RESERVED, Admission
from tidemill.http.answer import Asgi, problem
from tidemill.wire.first_bytes import ClientProtocol, protocol_of

ANSWERED_MAX: Final = 64  # connections beyond the most that are served: they get status 503, further ones nothing
EVICTED_AFTER_S: Final = 1.0  # without a request, while few connections are left: a client sends one within this time
READ_BYTES_MAX: Final = 64 << 10  # of a connection at once
READ_BYTES_FIRST: Final = 1 << 10  # until it is known how long they take to parse: heads of requests are smaller
READ_BYTES_MIN: Final = 128
PARSED_S_MAX: Final = 0.00025  # after a read that took longer to parse, less is read
RECEIVED_BYTES_MAX: Final = 4 << 20  # by all connections together, which requests hold before they count it
Refused = Callable[[ClientProtocol, str], None]
"""Called with the protocol that has arrived instead of HTTP, and the client's host."""


def server_of(application: Asgi, refused: Refused, log: Callable[[str], None], drain_s: int) -> Any:
    """
    Return uvicorn's server, whose loop the caller runs.  `log` gets the reason of each refused request; requests in
    progress at a stop have `drain_s` seconds.
    """
    config = uvicorn.Config(
        Admission(application, lambda: _count(server.server_state.connections), log),
        http=lambda **named: SmallReads(HttpProtocol(refused=refused, **named)),  # type: ignore[arg-type]
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a header of the request must not say where its client is: access depends on that
        timeout_graceful_shutdown=drain_s,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    return server


class StrictConnection(h11.Connection):
    """Also refuses other versions of HTTP."""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request) and event.http_version not in (b"1.0", b"1.1"):
            raise h11.RemoteProtocolError("This port serves HTTP/1.1 only.", error_status_hint=505)
        return event


class SmallReads(asyncio.BufferedProtocol):
    """
    Reads the less of a connection at once, the more there are, and the longer the last read took to parse: tiny chunks
    take a hundred times as long as a large one, and would block the event loop.  The rest stays in the kernel
    meanwhile.
    """

    _buffer = memoryview(bytearray(READ_BYTES_MAX))  # of all connections, because each read is passed on at once

    def __init__(self, protocol: "HttpProtocol", now: Callable[[], float] = time.perf_counter) -> None:
        """`now` returns a time in seconds."""
        self._protocol = protocol
        self._now = now
        self._read_max = READ_BYTES_FIRST

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._protocol.connection_made(transport)

    def get_buffer(self, _: int) -> memoryview:
        return self._buffer[: min(self._read_max, RECEIVED_BYTES_MAX // len(self._protocol.connections))]

    def buffer_updated(self, count: int) -> None:
        began_at = self._now()
        self._protocol.data_received(bytes(self._buffer[:count]))
        if self._now() - began_at > PARSED_S_MAX:
            self._read_max = max(count // 2, READ_BYTES_MIN)
        else:
            self._read_max = min(2 * self._read_max, READ_BYTES_MAX)

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._protocol.connection_lost(error)


class HttpProtocol(H11Protocol):
    """A connection that begins with another protocol is refused, and a slow one is closed by `check`."""

    is_checked = False

    def __init__(self, *given: Any, refused: Refused, **named: Any) -> None:
        super().__init__(*given, **named)
        self._refused = refused
        self.conn: StrictConnection = StrictConnection(h11.SERVER, HEAD_BYTES_MAX)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # the next part of a response is made when its client has taken the last
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
                self._refused(arrived, self.client[0] if self.client else "")
                self.send_400_response(f"This port serves HTTP without TLS, not {arrived}.")
                return
        if self.conn.their_state is h11.IDLE:  # h11 checks the size of a head only as long as it is not complete
            super().data_received(data[: HEAD_BYTES_MAX + 1])
            data = data[HEAD_BYTES_MAX + 1 :]
        if data and not self.transport.is_closing():
            super().data_received(data)
        if self.is_answering and self.cycle.body:
            self.flow.pause_reading()  # until the application asks for more of the body

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


def _count(connections: Collection[Any]) -> int:
    """Return how many connections are open; those that are closing right now do not count."""
    return sum(not it.transport.is_closing() for it in connections)
