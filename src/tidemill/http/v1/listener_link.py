"""Connections to the Kafka listener of another broker, for requests that do not travel over peer links yet.

A connection serves one request at a time, because a broker answers the requests of a connection in their order: a fetch
that waits for records would hold up the others.  When a connection is lost, it is not known whether its request had an
effect.
"""

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from tidemill.http.v1.silence import ended_by_silence
from tidemill.wire.client_connection import ClientConnection
from tidemill.wire.messages import api_versions
from tidemill.wire.primitives import ProtocolError
from tidemill.wire.schema import Api, Message

CONNECT_S_MAX: Final = 5.0
RESPONSE_S_MAX: Final = 60.0  # twice as long as any request waits
FRAME_BYTES_MAX: Final = 128 << 20  # more than any broker sends
IDLE_MAX: Final = 16  # connections that are kept; more of them are closed after their request
_FRAME_SIZE: Final = Struct(">i")


class LinkLost(Exception):
    """The connection could not be opened, or was lost before the response: `is_sent` says whether the request was."""

    def __init__(self, problem: str, *, is_sent: bool) -> None:
        super().__init__(problem)
        self.is_sent = is_sent


class ListenerLinks:
    """The connections to one broker."""

    def __init__(self, address: Callable[[], tuple[str, int] | None], is_up: Callable[[], bool]) -> None:
        """
        Connect to `address()`; None means that the broker has none.  `is_up` says whether its heartbeats arrive.
        """
        self._address = address
        self._is_up = is_up
        self._idle: list[ListenerLink] = []

    async def ask(self, api: Api, request: Message, response_s: float | None = None) -> Any:
        """
        Return the response, which may take `response_s` (RESPONSE_S_MAX).  Raise LinkLost.  If this is cancelled, the
        broker stops waiting for records.
        """
        link = await self._free_link()
        response = await link.ask(api, request, response_s=response_s)
        if len(self._idle) < IDLE_MAX:
            self._idle.append(link)
        else:
            link.close()
        return response

    async def _free_link(self) -> "ListenerLink":
        while self._idle:
            link = self._idle.pop()
            if link.is_open:
                return link
            link.close()
        address = self._address()
        if address is None:
            raise LinkLost("it is not registered", is_sent=False)
        return await connect(*address, self._is_up)


class ListenerLink:
    """A connection to one broker.  `connect` opens it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_up: Callable[[], bool]) -> None:
        self._is_up = is_up
        self._wire = ClientConnection("tidemill-http")
        self._reader = reader
        self._writer = writer
        self._listed: set[int] = set()  # the keys of the APIs whose versions the broker lists

    @property
    def is_open(self) -> bool:
        return not (self._reader.at_eof() or self._writer.is_closing())

    async def negotiate(self) -> None:
        """Learn the versions of the broker's APIs.  Raise LinkLost."""
        versions = await self.ask(api_versions.API, api_versions.Request(), version=0)
        self._wire.learn(versions)
        self._listed = {it.api_key for it in versions.api_keys}

    async def ask(
        self, api: Api, request: Message, version: int | None = None, *, response_s: float | None = None
    ) -> Any:
        """Return the response.  Raise LinkLost.  The connection is closed unless it returns one."""
        if version is None and api.key not in self._listed:
            version = api.versions[-1]  # of an API that only Tidemill has, which is not listed for clients
        limit_s = RESPONSE_S_MAX if response_s is None else response_s
        is_sent = is_done = False
        try:
            _, parts = self._wire.send(api, request, version=version)
            is_sent = True
            self._writer.writelines(parts)
            async with asyncio.timeout(limit_s) as limit:
                with ended_by_silence(limit, self._is_up):
                    await self._writer.drain()
                    (size,) = _FRAME_SIZE.unpack(await self._reader.readexactly(_FRAME_SIZE.size))
                    if not 0 < size <= FRAME_BYTES_MAX:
                        raise LinkLost(f"a response of {size} bytes", is_sent=True)
                    frame = await self._reader.readexactly(size)
            response = self._wire.receive(memoryview(frame)).response
            is_done = True
        except TimeoutError as error:
            why = f"no response within {limit_s:.0f} s" if self._is_up() else "neither a response nor a heartbeat"
            raise LinkLost(why, is_sent=True) from error
        except asyncio.IncompleteReadError as error:
            raise LinkLost("the broker closed the connection", is_sent=True) from error
        except (OSError, ProtocolError) as error:
            raise LinkLost(str(error), is_sent=is_sent) from error
        finally:
            if not is_done:
                self.close()
        return response

    def close(self) -> None:
        self._writer.close()


async def connect(host: str, port: int, is_up: Callable[[], bool]) -> ListenerLink:
    """Raise LinkLost if the broker cannot be reached."""
    try:
        async with asyncio.timeout(CONNECT_S_MAX):
            reader, writer = await asyncio.open_connection(host, port)
            link = ListenerLink(reader, writer, is_up)
            await link.negotiate()
    except (OSError, TimeoutError, LinkLost) as error:
        raise LinkLost(f"{host}:{port} cannot be reached: {error}", is_sent=False) from error
    return link
