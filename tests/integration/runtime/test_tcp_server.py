"""The TCP server on real sockets: large writes, back-pressure, orderly and abrupt closing."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from tidemill.runtime.tcp_server import TcpServer, TcpWriter

MIB = 1 << 20


class Recorder:
    """A connection that records its callbacks.  It calls `on_bytes` with received bytes."""

    def __init__(self, writer: TcpWriter, on_bytes: Callable[["Recorder", bytes], None]) -> None:
        self.writer = writer
        self.on_bytes = on_bytes
        self.buffer = bytearray(65536)
        self.events: list[str] = []
        self.bytes_received = 0
        self.reason: Exception | None = None
        self.over = asyncio.Event()

    def get_buffer(self, size_hint: int) -> bytearray:
        return self.buffer

    def received(self, count: int) -> None:
        self.bytes_received += count
        self.on_bytes(self, bytes(self.buffer[:count]))

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def lost(self, reason: Exception | None) -> None:
        self.reason = reason
        self.events.append("lost")
        self.over.set()


def echo(connection: Recorder, data: bytes) -> None:
    connection.writer.send([data])


def ignore(connection: Recorder, data: bytes) -> None:
    pass


class Scene:
    """A server listening on loopback, its connections, and clients."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_bytes: Callable[[Recorder, bytes], None]) -> None:
        self.connections: list[Recorder] = []
        self.errors: list[dict[str, Any]] = []
        self.clients: list[asyncio.StreamWriter] = []
        self.server = TcpServer(loop, lambda writer: self.made(Recorder(writer, on_bytes)))
        loop.set_exception_handler(lambda _, context: self.errors.append(context))

    def made(self, connection: Recorder) -> Recorder:
        self.connections.append(connection)
        return connection

    async def client(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self.server.addresses[0])
        self.clients.append(writer)
        return reader, writer

    async def end(self) -> None:
        self.server.abort()
        for writer in self.clients:
            writer.transport.abort()
        await self.until(lambda: not self.server.writers)
        await asyncio.sleep(0.001)  # the clients' sockets close in the next iteration of the loop

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(5):
            while not condition():  # noqa: ASYNC110 - conditions of both sides and of the loop itself
                await asyncio.sleep(0.001)


def play(
    act: Callable[[Scene], Coroutine[Any, Any, None]], on_bytes: Callable[[Recorder, bytes], None] = echo
) -> Scene:
    scenes: list[Scene] = []

    async def main() -> None:
        scene = Scene(asyncio.get_running_loop(), on_bytes)
        scenes.append(scene)
        await scene.server.listen("127.0.0.1", 0)
        try:
            await act(scene)
        finally:
            await scene.end()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    return scenes[0]


def test_bytes_are_sent_and_received() -> None:
    """The parts of a message arrive as contiguous bytes, and both sides know each other's address."""

    async def act(scene: Scene) -> None:
        reader, writer = await scene.client()
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        scene.connections[0].writer.send([b"a", bytearray(b"bc"), memoryview(b"def")])
        assert await reader.readexactly(6) == b"abcdef"
        assert scene.connections[0].writer.peer == writer.get_extra_info("sockname")
        assert scene.connections[0].writer.local == scene.server.addresses[0]
        writer.close()
        await scene.connections[0].over.wait()

    scene = play(act)

    assert (scene.connections[0].events, scene.connections[0].reason, scene.errors) == (["lost"], None, [])


def test_small_responses_are_not_delayed() -> None:
    """Small responses are not delayed, because TCP_NODELAY is set on every accepted socket."""
    options: list[int] = []

    async def act(scene: Scene) -> None:
        await scene.client()
        await scene.until(lambda: scene.connections)
        accepted = scene.connections[0].writer._transport.get_extra_info("socket")
        options.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    play(act)

    assert options == [1]


def test_a_response_of_many_megabytes_arrives_complete() -> None:
    """A response larger than any socket buffer arrives complete, whether it has large parts or many small ones."""
    large, small = bytes(range(256)) * (16 * MIB // 256), [b"%07d" % number for number in range(20_000)]

    async def act(scene: Scene) -> None:
        reader, writer = await scene.client()
        await scene.until(lambda: scene.connections)
        scene.connections[0].writer.send([large, *small])
        assert await reader.readexactly(len(large) + 140_000) == large + b"".join(small)
        writer.close()

    scene = play(act)

    assert scene.errors == []


def test_a_slow_reader_pauses_and_resumes_the_connection() -> None:
    """A slow reader causes one call to `pause_writing` above the high-water mark, and one to `resume_writing` below the
    low-water mark.
    """

    async def act(scene: Scene) -> None:
        raw = socket.create_connection(scene.server.addresses[0])
        raw.setblocking(False)
        await scene.until(lambda: scene.connections)
        connection = scene.connections[0]
        for _ in range(8):
            connection.writer.send([bytes(4 * MIB)])
        await scene.until(lambda: connection.events == ["pause"])
        assert connection.writer.unsent_bytes > scene.server.write_bytes_high
        left = 32 * MIB
        while left:
            left -= len(await asyncio.get_running_loop().sock_recv(raw, MIB))
        await scene.until(lambda: connection.events == ["pause", "resume"])
        assert connection.writer.unsent_bytes == 0
        raw.close()

    scene = play(act)

    assert scene.errors == []


def test_a_connection_can_pause_reading() -> None:
    """
    While a connection has paused reading, it receives nothing, and the client's writes wait.  Once it resumes reading,
    everything arrives.
    """

    async def act(scene: Scene) -> None:
        _, writer = await scene.client()
        await scene.until(lambda: scene.connections)
        connection = scene.connections[0]
        connection.writer.pause_reading()
        connection.writer.pause_reading()
        writer.write(bytes(32 * MIB))
        await asyncio.sleep(0.05)
        assert connection.bytes_received == 0
        connection.writer.resume_reading()
        connection.writer.resume_reading()
        await writer.drain()
        await scene.until(lambda: connection.bytes_received == 32 * MIB)
        writer.close()

    play(act, ignore)


def test_close_flushes_sent_bytes() -> None:
    """`close` flushes the bytes that were sent before it: they arrive, followed by the end of the stream.  Later sends
    are ignored.
    """

    async def act(scene: Scene) -> None:
        reader, _ = await scene.client()
        await scene.until(lambda: scene.connections)
        connection = scene.connections[0]
        connection.writer.send([bytes(8 * MIB)])
        connection.writer.close()
        connection.writer.close()
        connection.writer.send([b"late"])
        connection.writer.pause_reading()
        connection.writer.resume_reading()
        assert not connection.writer.is_open
        assert len(await reader.read(-1)) == 8 * MIB
        await connection.over.wait()
        connection.writer.send([b"later still"])

    scene = play(act)

    assert (scene.connections[0].reason, scene.errors) == (None, [])


def test_abort_drops_sent_bytes() -> None:
    """`abort` drops bytes that have not been sent yet; it is meant for clients that do not read."""

    async def act(scene: Scene) -> None:
        await scene.client()
        await scene.until(lambda: scene.connections)
        connection = scene.connections[0]
        connection.writer.send([bytes(32 * MIB)])
        connection.writer.abort()
        connection.writer.abort()
        await connection.over.wait()

    scene = play(act)

    assert scene.connections[0].events[-1] == "lost"


def test_a_reset_by_the_other_side_is_reported_once() -> None:
    """A reset is reported once, even in the middle of a large response, and the server keeps no state of the
    connection.
    """

    async def act(scene: Scene) -> None:
        for unsent in (0, 32 * MIB):
            raw = socket.create_connection(scene.server.addresses[0])
            count = len(scene.connections)
            await scene.until(lambda count=count: len(scene.connections) > count)
            connection = scene.connections[-1]
            if unsent:
                connection.writer.send([bytes(unsent)])
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.close()
            async with asyncio.timeout(5):
                await connection.over.wait()
            connection.writer.send([b"nobody"])
            assert not connection.writer.is_open
        assert not scene.server.writers

    scene = play(act)

    assert [connection.events.count("lost") for connection in scene.connections] == [1, 1]
    assert scene.errors == []


def test_an_exception_in_a_connection_closes_only_that_one() -> None:
    """An exception in a connection closes only that one; the loop's exception handler receives the exception."""

    def explode(connection: Recorder, data: bytes) -> None:
        if data == b"boom":
            raise RuntimeError("a bug")
        echo(connection, data)

    async def act(scene: Scene) -> None:
        good_reader, good = await scene.client()
        _, bad = await scene.client()
        bad.write(b"boom")
        await scene.until(lambda: any(connection.over.is_set() for connection in scene.connections))
        good.write(b"alive")
        assert await good_reader.readexactly(5) == b"alive"

    scene = play(act, explode)

    assert [type(context.get("exception")) for context in scene.errors] == [RuntimeError]


@pytest.mark.parametrize("where", ["factory", "get_buffer", "received"])
def test_an_exception_in_any_callback_leaves_the_loop_running(where: str) -> None:
    """No exception in a callback reaches uvloop, which would loop forever if `get_buffer` or the factory raised one."""

    def explode(*_: object) -> Any:
        raise RuntimeError("a bug")

    async def act(scene: Scene) -> None:
        if where == "factory":
            scene.server.factory = explode
        reader, writer = await scene.client()
        if where != "factory":
            await scene.until(lambda: scene.connections)
            setattr(scene.connections[0], where, explode)
        writer.write(b"hello")
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        await scene.until(lambda: not scene.server.writers)

    scene = play(act)

    assert [str(context.get("exception")) for context in scene.errors] == ["a bug"]
    assert [str(connection.reason) for connection in scene.connections] == ["a bug"] * (where != "factory")


def test_a_client_that_is_not_admitted_is_closed_without_a_connection() -> None:
    """A client that the caller does not admit is closed, and no connection object is created for it."""
    asked: list[str] = []

    async def act(scene: Scene) -> None:
        scene.server.admit = lambda host: bool(asked.append(host)) or len(asked) == 1
        first_reader, first = await scene.client()
        refused = socket.create_connection(scene.server.addresses[0])
        refused.setblocking(False)
        try:
            assert await asyncio.get_running_loop().sock_recv(refused, 1) == b""
        except ConnectionResetError:
            pass
        finally:
            refused.close()
        first.write(b"still here")
        assert await first_reader.readexactly(10) == b"still here"

    scene = play(act)

    assert (asked, len(scene.connections)) == (["127.0.0.1", "127.0.0.1"], 1)


def test_a_port_in_use_is_refused() -> None:
    """A second server on the same address fails with an error instead of sharing the port."""

    async def act(scene: Scene) -> None:
        other = TcpServer(asyncio.get_running_loop(), lambda writer: Recorder(writer, echo))
        with pytest.raises(OSError, match="address already in use"):
            await other.listen(*scene.server.addresses[0])

    play(act)


def test_the_last_activity_is_recorded() -> None:
    """Sending or receiving bytes updates the time of a connection's last activity."""

    async def act(scene: Scene) -> None:
        reader, writer = await scene.client()
        await scene.until(lambda: scene.connections)
        times = [scene.connections[0].writer.active_at]
        for by in (lambda: writer.write(b"x"), lambda: scene.connections[0].writer.send([b"y"])):
            await asyncio.sleep(0.005)
            by()
            await reader.readexactly(1)
            times.append(scene.connections[0].writer.active_at)
        assert times[0] < times[1] < times[2]

    play(act)


def test_open_connections_continue_after_stop_listening() -> None:
    """After `stop_listening`, new connections are refused, and open connections can finish their responses."""

    async def act(scene: Scene) -> None:
        reader, writer = await scene.client()
        await scene.until(lambda: scene.connections)
        address = scene.server.addresses[0]
        scene.server.stop_listening()
        await asyncio.sleep(0)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        scene.server.close()
        assert await reader.read() == b""

    play(act)
