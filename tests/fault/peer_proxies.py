"""A proxy in front of each broker's peer listener, which can hold back data between two brokers in either direction.

    broker a ──▶ proxy of b ──▶ broker b        hold((a, b)): data from a to b waits, also on connections
                                                that b has dialled

Data is held, not lost: as with TCP after a network partition, it arrives later, unless one end has closed the
connection.  The closing of a connection is held, too: to the other side, a broker that is killed during a partition
merely falls silent.
"""

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

CHUNK_BYTES = 256 << 10
END_SECONDS = 0.1  # between two attempts to end all connections

Pair = tuple[int, int]  # (from, to), as broker ids


class PeerProxies:
    """Runs the proxies in a thread that has its own event loop.  Every method may be called from any thread."""

    def __init__(self, targets: Mapping[int, int], processes: Callable[[], Mapping[int, int]]) -> None:
        """
        `targets` maps brokers to the ports of their peer listeners; `processes` returns the running brokers by process
        id.
        """
        self._targets = targets
        self._processes = processes
        self._held: set[Pair] = set()
        self._changed = asyncio.Event()  # replaced whenever the set of held pairs changes
        self._connections: dict[asyncio.Task[None], Pair] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="peer proxies", daemon=True)
        self._thread.start()
        self._servers: list[asyncio.Server] = []
        self.ports: dict[int, int] = {number: self._run(self._listen(number)) for number in targets}

    def close(self) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def hold(self, *pairs: Pair) -> None:
        """For each pair, hold back all data from the first broker to the second."""
        self._run(self._hold(self._held.union(pairs)))

    def isolate(self, number: int) -> None:
        """Hold back all data from this broker to all others and from all others to it."""
        others = [other for other in self._targets if other != number]
        self.hold(*((number, other) for other in others), *((other, number) for other in others))

    def heal(self) -> None:
        """Let all data pass again, beginning with the data that was held."""
        self._run(self._hold(set()))

    def reset(self) -> None:
        """Close every connection immediately, at both ends."""
        self._run(self._reset())

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _hold(self, pairs: set[Pair]) -> None:
        self._held = pairs
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _passes(self, pair: Pair) -> None:
        while pair in self._held:
            await self._changed.wait()

    async def _reset(self) -> None:
        for task in self._connections:
            task.cancel()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        await asyncio.sleep(0)  # connections that were accepted just now get their tasks
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in [*self._connections]:
                task.cancel()
            await asyncio.wait(tasks, timeout=END_SECONDS)  # some of them were not in `_connections` yet

    async def _listen(self, number: int) -> int:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            dialler = self._dialler(writer.get_extra_info("peername")[1])
            task = asyncio.current_task()
            assert task is not None, "streams are served in tasks"
            if dialler is None:  # the broker that dialled has ended
                await _close(writer)
                return
            self._connections[task] = (dialler, number)
            try:
                await self._join(reader, writer, dialler, number)
            except (OSError, asyncio.CancelledError):
                pass  # one end was killed, or `reset` was called; both ends are now closed
            finally:
                await _close(writer)
                del self._connections[task]

        server = await asyncio.start_server(accepted, "127.0.0.1", 0)
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _join(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, dialler: int, number: int
    ) -> None:
        await self._passes((dialler, number))
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._targets[number])
        ways = [
            asyncio.ensure_future(self._pass_on(reader, far_writer, (dialler, number))),
            asyncio.ensure_future(self._pass_on(far_reader, writer, (number, dialler))),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            await _close(far_writer)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pair: Pair) -> None:
        while True:
            try:
                data = await reader.read(CHUNK_BYTES)
            except OSError:
                data = b""
            await self._passes(pair)
            if not data:
                return
            writer.write(data)
            await writer.drain()

    def _dialler(self, port: int) -> int | None:
        """
        Return the broker that opened the connection from the given local port, according to the kernel's tables of
        sockets and processes.
        """
        inode = _inode_of(port)
        for pid, number in self._processes().items():
            if inode is not None and _has_socket(Path(f"/proc/{pid}"), inode):
                return number
        return None


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close a connection and wait for that: the event loop may end next, and would leave the socket open."""
    writer.close()
    with suppress(OSError):  # the other end was killed
        await writer.wait_closed()


def _inode_of(port: int) -> str | None:
    address = socket.inet_aton("127.0.0.1")[::-1].hex().upper()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1] == f"{address}:{port:04X}":
            return fields[9]
    return None


def _has_socket(process: Path, inode: str) -> bool:
    try:
        return any(os.readlink(link) == f"socket:[{inode}]" for link in (process / "fd").iterdir())
    except OSError:  # the process has ended
        return False
