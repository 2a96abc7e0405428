"""A TCP listener, independent of any protocol: creates a connection object for each accepted socket.

For each accepted socket, the server passes a `TcpWriter` to the factory, which returns a `Connection`.  Bytes are
received directly into the connection's own buffer (`get_buffer`, then `received`).  The parts given to `send` are not
copied if the socket can take them immediately.  The loop sets TCP_NODELAY.  All calls are callbacks; none of them
blocks.

    connection made ──▶ factory(writer) ──▶ get_buffer, received … ──▶ lost(reason), once, the last call

Back-pressure works in both directions.  When more than `write_bytes_high` bytes wait to be sent, `pause_writing` asks
the connection to stop producing responses until `resume_writing`.  The connection calls `writer.pause_reading` when it
has enough requests in flight.  After `close`, or when the other side closes its half, sent bytes are still flushed;
`abort` drops them.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

Buffer = bytes | bytearray | memoryview

BACKLOG: Final = 4096
"""The length of the kernel's queue of connections not yet accepted; the kernel limits it to `somaxconn`."""

SYSTEM_SIZED: Final = -1
"""Lets the kernel choose the size of the socket buffer and enlarge it as needed."""

WRITE_BYTES_HIGH: Final = 1 << 20
"""About one fetch response.  While more bytes than this are unsent, the connection is asked to pause."""

DISCARDED_BYTES: Final = 4096
"""The size of the buffer for data that arrives while the socket is closing."""


class Connection(Protocol):
    """The implementation of a network protocol on one socket.  An exception that it raises closes only this socket."""

    def get_buffer(self, size_hint: int) -> bytearray | memoryview:
        """Return a buffer for the next bytes, with room for at least one."""
        ...

    def received(self, count: int) -> None:
        """Process `count` bytes received into the last buffer."""
        ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def lost(self, reason: Exception | None) -> None:
        """Handle the end of the socket; `reason` is None if a side closed it without an error."""
        ...


class TcpWriter:
    """The connection's interface to its socket.  Once the socket has ended, calls have no effect."""

    __slots__ = ("_loop", "_open", "_transport", "active_at", "local", "peer")

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._loop = loop
        self._transport = transport
        self._open = True
        self.active_at = loop.time()
        """The time on the loop's clock at which bytes were last received or sent, for `connections.max.idle.ms`."""
        self.peer = _address(transport.get_extra_info("peername"))
        self.local = _address(transport.get_extra_info("sockname"))

    @property
    def is_open(self) -> bool:
        """
        Return whether the connection can still send: not after `close` or `abort`, nor once the client has ended its
        stream or the connection has failed.
        """
        return self._open

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size() if self._open else 0

    def send(self, parts: Sequence[Buffer]) -> None:
        """Send the parts.  They must not change afterwards, since they may be queued."""
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
        """Close the socket once sent bytes are flushed.  No more bytes are received."""
        if self._open:
            self._open = False
            self._transport.close()

    def abort(self) -> None:
        """Close the socket without flushing."""
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
        """Create a server that does not listen yet.

        `admit` is called with a client's host before a connection is created, and returns whether to accept the client.
        """
        self.backlog = backlog
        self.receive_buffer_bytes = receive_buffer_bytes
        self.send_buffer_bytes = send_buffer_bytes
        self.factory = factory
        self.admit = admit
        self.write_bytes_high = write_bytes_high
        self.addresses: Sequence[tuple[str, int]] = ()
        """The addresses on which the server listens, with actual ports in place of port 0."""
        self.writers: dict[TcpWriter, Connection] = {}
        """The open connections, oldest first."""
        self.hosts: dict[str, int] = {}
        """The number of open connections per client host."""
        self.loop = loop
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> None:
        """Bind the address and serve.  The port is not shared: raises OSError with the address if it is in use."""
        await self.bind(host, port)
        await self.serve()

    async def bind(self, host: str, port: int) -> None:
        """Bind the port without serving.  Connections are refused until `serve`."""
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
        """Remove a connection.  A connection that was not added by `remember` is ignored."""
        if self.writers.pop(writer, None) is None:
            return
        host = writer.peer[0]
        self.hosts[host] -= 1
        if not self.hosts[host]:
            del self.hosts[host]

    def stop_listening(self) -> None:
        """Refuse new connections; open ones stay open."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def close(self) -> None:
        """Stop listening, and close each connection once its sent bytes are flushed."""
        self.stop_listening()
        for writer in [*self.writers]:
            writer.close()

    def abort(self) -> None:
        """Stop listening, and close each connection immediately, without flushing."""
        self.stop_listening()
        for writer in [*self.writers]:
            writer.abort()


class _Socket(asyncio.BufferedProtocol):
    """One accepted socket, which passes calls between the event loop's transport and the `Connection`."""

    __slots__ = ("_connection", "_reason", "_server", "_writer")

    def __init__(self, server: TcpServer) -> None:
        self._server = server
        self._connection: Connection | None = None
        self._writer: TcpWriter | None = None
        self._reason: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast(asyncio.Transport, transport)  # uvloop's transports do not declare this base class
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
        """Return the buffer for the next bytes.  Must not raise, or uvloop 0.23 would call it in a busy loop."""
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
            return  # The socket is closing.
        writer.active_at = self._server.loop.time()
        try:
            connection.received(nbytes)
        except Exception as error:
            self._fail(writer, error)

    def _fail(self, writer: TcpWriter, error: Exception) -> None:
        """Report an exception from the connection to the loop's exception handler, and close only that connection."""
        self._reason = error
        writer._open = False
        self._server.loop.call_exception_handler(
            {"message": f"the connection of {writer.peer} failed", "exception": error, "protocol": self}
        )
        self._server.loop.call_soon(writer.abort)  # Deferred, because libuv uses the socket right after `get_buffer`.

    def eof_received(self) -> None:
        """Stop sending.  The loop flushes sent bytes and closes.  As in Kafka, outstanding responses are dropped."""
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
    """Return the host and port of a socket, or ("", 0) if the socket was already disconnected."""
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else ("", 0)
