"""A proxy between HTTP clients and a broker that loses some of the broker's responses."""

import asyncio
import random
from collections.abc import Iterable
from threading import Thread

HEAD_END = b"\r\n\r\n"


class LossyProxies:
    """One proxy for each broker, in a thread with an event loop.  A broker may be down, and come back at its port."""

    def __init__(self, ports: Iterable[int], *, lost_share: float, seed: int) -> None:
        self.ports: list[int] = []  # of the proxies
        self.lost = 0  # responses that the broker has sent and no client has received
        self._lost_share = lost_share
        self._random = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="lossy-proxies", daemon=True)
        self._thread.start()
        self._servers = [asyncio.run_coroutine_threadsafe(self._listen(port), self._loop).result(10) for port in ports]

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        others = [it for it in asyncio.all_tasks() if it is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _listen(self, broker_port: int) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await self._serve(broker_port, reader, writer)
            except (OSError, asyncio.IncompleteReadError):
                pass  # the client has left, or the broker is down: the client sees its connection closed
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self.ports.append(server.sockets[0].getsockname()[1])
        return server

    async def _serve(self, broker_port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on the requests of one connection until a response is lost."""
        to_broker = None
        try:
            while True:
                request = await _message(reader)
                if to_broker is None:
                    from_broker, to_broker = await asyncio.open_connection("127.0.0.1", broker_port)
                to_broker.write(request)
                response = await _message(from_broker)
                if self._random.random() < self._lost_share:
                    self.lost += 1
                    return
                writer.write(response)
                await writer.drain()
        finally:
            if to_broker is not None:
                to_broker.close()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """Return the next request or response, whose body has a Content-Length."""
    head = await reader.readuntil(HEAD_END)
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return head + await reader.readexactly(length)
