"""A TCP listener: sockets in, connection objects out.  It knows no protocol.

For each accepted socket the factory makes a `Connection`, which is handed a `TcpWriter`.  Bytes are received straight
into the connection's own buffer (`get_buffer`, then `received`), and leave as the parts that were given to `send`,
uncopied where the socket takes them at once; the loop sets TCP_NODELAY.  Nothing here waits: all is callbacks.

    connection made ──▶ factory(writer) ──▶ get_buffer, received … ──▶ lost(reason), once, the last call

Back-pressure goes both ways: when more than `write_bytes_high` wait to be sent the connection hears `pause_writing` and
should stop producing answers until `resume_writing`; and it calls `writer.pause_reading` when it has enough to do.
When this side closes, or the other side ends its half, what was sent is still flushed; `abort` drops it.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

Buffer = bytes | bytearray | memoryview

BACKLOG: Final = 4096
"""Connections that the kernel accepts before we do; it takes the smaller of this and `somaxconn`."""

SYSTEM_SIZED: Final = -1
"""Of socket buffers: the system lets them grow as they are needed."""

WRITE_BYTES_HIGH: Final = 1 << 20
"""One fetch answer.  More than that waits for the other side to read: the connection is told to pause."""

DISCARDED_BYTES: Final = 4096
"""A buffer for what still comes from a socket that is being closed."""


class Connection(Protocol):
    """What the protocol's side of a socket has to offer.  An error that it raises ends this connection alone."""

    def get_buffer(self, size_hint: int) -> bytearray | memoryview:
        """Where to receive the next bytes; never empty."""
        ...

    def received(self, count: int) -> None:
        """`count` bytes are in the buffer that was got last."""
        ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def lost(self, reason: Exception | None) -> None:
        """The socket is gone; None when one of the two sides closed it in order."""
        ...


class TcpWriter:
    """The socket's side, as the connection sees it.  Calls after the end of the socket do nothing."""

    __slots__ = ("_loop", "_open", "_transport", "active_at", "local", "peer")

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._loop = loop
        self._transport = transport
        self._open = True
        self.active_at = loop.time()
        """When bytes last came or were sent, on the loop's clock: for `connections.max.idle.ms`."""
        self.peer = _address(transport.get_extra_info("peername"))
        self.local = _address(transport.get_extra_info("sockname"))

    @property
    def is_open(self) -> bool:
        """False from `close` on, or when the socket is gone."""
        return self._open

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size() if self._open else 0

    def send(self, parts: Sequence[Buffer]) -> None:
        """The parts must not change afterwards: they may wait to be sent."""
        if self._open:
            self.active_at = self._loop.time()
            self._transport.writelines(parts)

    def pause_reading(self) -> None:
        if self._open and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._open and not self._transport.is_reading():
            self._transport.resume_reading()

    def close(self) -> None:
        """Flush what was sent, then close; nothing more is received."""
        if self._open:
            self._open = False
            self._transport.close()

    def abort(self) -> None:
        """Close without flushing."""
        self._open = False
        self._transport.abort()


class TcpServer:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        factory: Callable[[TcpWriter], Connection],
        *,
        admit: Callable[[str], bool] | None = None,
        write_bytes_high: int = WRITE_BYTES_HIGH,
        backlog: int = BACKLOG,
        receive_buffer_bytes: int = SYSTEM_SIZED,
        send_buffer_bytes: int = SYSTEM_SIZED,
    ) -> None:
        """`admit` is asked with the other side's host before a connection is made of it: for limits on their number."""
        self.backlog = backlog
        self.receive_buffer_bytes = receive_buffer_bytes
        self.send_buffer_bytes = send_buffer_bytes
        self.factory = factory
        self.admit = admit
        self.write_bytes_high = write_bytes_high
        self.addresses: Sequence[tuple[str, int]] = ()
        """Where it listens, with the ports that were found for port 0."""
        self.writers: dict[TcpWriter, Connection] = {}
        """Of the open connections, oldest first."""
        self.hosts: dict[str, int] = {}
        """How many open connections each of the other sides' hosts has."""
        self.loop = loop
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> None:
        """OSError names the address when it is taken.  Other processes cannot share the port."""
        await self.bind(host, port)
        await self.serve()

    async def bind(self, host: str, port: int) -> None:
        """The first half of `listen`: the port is ours, and connections to it are refused until `serve`."""
        self._server = await self.loop.create_server(
            lambda: _Socket(self),
            host,
            port,
            backlog=self.backlog,
            reuse_address=True,
            reuse_port=False,
            start_serving=False,
        )
        self.addresses = [listener.getsockname()[:2] for listener in self._server.sockets]

    async def serve(self) -> None:
        assert self._server is not None, "nothing is bound"
        await self._server.start_serving()

    def size_buffers(self, transport: asyncio.Transport) -> None:
        accepted: socket.socket | None = transport.get_extra_info("socket")
        for option, size in ((socket.SO_RCVBUF, self.receive_buffer_bytes), (socket.SO_SNDBUF, self.send_buffer_bytes)):
            if accepted is not None and size != SYSTEM_SIZED:
                accepted.setsockopt(socket.SOL_SOCKET, option, size)

    def remember(self, writer: TcpWriter, connection: Connection) -> None:
        self.writers[writer] = connection
        host = writer.peer[0]
        self.hosts[host] = self.hosts.get(host, 0) + 1

    def forget(self, writer: TcpWriter) -> None:
        """Also of one that was never remembered."""
        if self.writers.pop(writer, None) is None:
            return
        host = writer.peer[0]
        self.hosts[host] -= 1
        if not self.hosts[host]:
            del self.hosts[host]

    def stop_listening(self) -> None:
        """No new connections; those that are open stay so."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def close(self) -> None:
        """Stop listening and close each connection when what it was sent is flushed."""
        self.stop_listening()
        for writer in [*self.writers]:
            writer.close()

    def abort(self) -> None:
        """Stop listening and end each connection at once."""
        self.stop_listening()
        for writer in [*self.writers]:
            writer.abort()


class _Socket(asyncio.BufferedProtocol):
    """One accepted socket, between the loop's transport and the protocol's connection."""

    __slots__ = ("_connection", "_reason", "_server", "_writer")

    def __init__(self, server: TcpServer) -> None:
        self._server = server
        self._connection: Connection | None = None
        self._writer: TcpWriter | None = None
        self._reason: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast(asyncio.Transport, transport)  # which uvloop's transports are without saying so
        server = self._server
        writer = TcpWriter(server.loop, accepted)
        if server.admit is not None and not server.admit(writer.peer[0]):
            writer.abort()
            return
        server.size_buffers(accepted)
        accepted.set_write_buffer_limits(high=server.write_bytes_high, low=server.write_bytes_high // 4)
        try:
            self._connection = server.factory(writer)
        except Exception as error:
            self._fail(writer, error)
            return
        self._writer = writer
        server.remember(writer, self._connection)

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:
        """Never raises: uvloop asks again and again when it does, and turns for nobody else (0.23)."""
        connection, writer = self._connection, self._writer
        if connection is not None and writer is not None and writer._open:
            try:
                return connection.get_buffer(sizehint)
            except Exception as error:
                self._fail(writer, error)
        return bytearray(DISCARDED_BYTES)

    def buffer_updated(self, nbytes: int) -> None:
        connection, writer = self._connection, self._writer
        if connection is None or writer is None or not writer._open:
            return  # the bytes of a socket that is being closed
        writer.active_at = self._server.loop.time()
        try:
            connection.received(nbytes)
        except Exception as error:
            self._fail(writer, error)

    def _fail(self, writer: TcpWriter, error: Exception) -> None:
        """A mistake in one connection ends that one: it is told to who watches the loop, and lost with its reason."""
        self._reason = error
        writer._open = False
        self._server.loop.call_exception_handler(
            {"message": f"the connection of {writer.peer} failed", "exception": error, "protocol": self}
        )
        self._server.loop.call_soon(writer.abort)  # not from within `get_buffer`: libuv is about to use the socket

    def eof_received(self) -> None:
        """The loop flushes what was sent and closes; as in Kafka, answers that are still owed find nobody."""
        if self._writer is not None:
            self._writer._open = False

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        connection, writer = self._connection, self._writer
        if writer is not None:
            writer._open = False
            self._server.forget(writer)
        if connection is not None:
            self._connection = None
            connection.lost(self._reason or exc)


def _address(name: object) -> tuple[str, int]:
    """Host and port of a socket; of one that was gone before it was looked at, neither."""
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else ("", 0)
