"""Bounds what the decoded bodies of all requests take together.

A body of `{"records":[{},{},…]}` takes two hundred times its size when it is decoded, and encoded again as records.  So
a body is not decoded before there is memory for it; until then, only its bytes are held.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

BYTES_MAX: Final = 24 << 20
FREE_BYTES: Final = 4 << 10  # of memory: bodies that take no more do not wait for others
ITEM_MEMORY: Final = 600  # of a record that is empty, with what is told about it, or of an empty list


class DecodedBodies:
    """What decoded bodies take.  Requests get memory in the order in which they ask for it."""

    def __init__(self) -> None:
        self.bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def room_for(self, data: bytes) -> AsyncIterator[None]:
        """Hold the memory that a body will take.  Wait until there is enough, or no other body is decoded."""
        size = min(memory_of(data), BYTES_MAX)
        if size <= FREE_BYTES:
            yield
            return
        if self._waiting or self.bytes + size > BYTES_MAX:
            await self._wait(size)
        else:
            self.bytes += size
        try:
            yield
        finally:
            self._give_back(size)

    @property
    def is_wanted(self) -> bool:
        """Whether a body waits for its memory."""
        return bool(self._waiting)

    async def _wait(self, size: int) -> None:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, granted))
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self._grant()  # to those that have waited behind it
            else:
                self._give_back(size)
            raise

    def _give_back(self, size: int) -> None:
        self.bytes -= size
        self._grant()

    def _grant(self) -> None:
        while self._waiting:
            size, granted = self._waiting[0]
            if not granted.cancelled():
                if self.bytes + size > BYTES_MAX:
                    return
                self.bytes += size
                granted.set_result(None)
            self._waiting.popleft()


def memory_of(data: bytes) -> int:
    """Return about how many bytes a body of JSON takes when it is decoded; more if its texts have braces."""
    return len(data) + ITEM_MEMORY * (data.count(b"{") + data.count(b"["))
