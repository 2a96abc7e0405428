"""Connections to the Kafka listeners of other brokers, for requests that do not travel over peer links yet.

Responses arrive in the order of the requests on a connection.  When it is lost, all its requests fail: it is not known
whether they had an effect.
"""

import asyncio
from struct import Struct
from typing import Any, Final

from tidemill.wire.client_connection import ClientConnection
from tidemill.wire.primitives import ProtocolError
from tidemill.wire.schema import Api, Message

CONNECT_S_MAX: Final = 5.0
FRAME_BYTES_MAX: Final = 128 << 20  # more than any broker sends
_FRAME_SIZE: Final = Struct(">i")


class LinkLost(Exception):
    """The connection could not be opened, or was lost before the response: `is_sent` says whether the request was."""

    def __init__(self, problem: str, *, is_sent: bool) -> None:
        super().__init__(problem)
        self.is_sent = is_sent


class ListenerLink:
    """A connection to one broker.  `connect` opens it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._wire = ClientConnection("tidemill-http")
        self._reader = reader
        self._writer = writer
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._receiving = asyncio.get_running_loop().create_task(self._receive())

    @property
    def is_open(self) -> bool:
        return not self._receiving.done()

    async def ask(self, api: Api, request: Message) -> Any:
        """Return the response.  Raise LinkLost.  If this is cancelled, the response is dropped."""
        if not self.is_open:
            raise LinkLost("the connection was closed", is_sent=False)
        correlation_id, parts = self._wire.send(api, request)
        answered = self._answers[correlation_id] = asyncio.get_running_loop().create_future()
        try:
            self._writer.writelines(parts)
            await self._writer.drain()
        except OSError as error:
            raise LinkLost(str(error), is_sent=True) from error
        return await answered

    async def _receive(self) -> None:
        problem = "the broker closed the connection"
        try:
            while True:
                (size,) = _FRAME_SIZE.unpack(await self._reader.readexactly(_FRAME_SIZE.size))
                if not 0 < size <= FRAME_BYTES_MAX:
                    problem = f"a response of {size} bytes"
                    return
                answer = self._wire.receive(memoryview(await self._reader.readexactly(size)))
                waiting = self._answers.pop(answer.correlation_id)
                if not waiting.done():
                    waiting.set_result(answer.response)
        except (OSError, asyncio.IncompleteReadError, ProtocolError) as error:
            problem = str(error)
        finally:
            self._writer.close()
            for waiting in self._answers.values():
                if not waiting.done():
                    waiting.set_exception(LinkLost(problem, is_sent=True))
            self._answers.clear()


async def connect(host: str, port: int) -> ListenerLink:
    """Raise LinkLost if the broker cannot be reached."""
    try:
        async with asyncio.timeout(CONNECT_S_MAX):
            reader, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError) as error:
        raise LinkLost(f"{host}:{port} cannot be reached: {error}", is_sent=False) from error
    return ListenerLink(reader, writer)
