"""What responses take until their clients have taken them is bounded."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from tidemill.http.unread_responses import FREE_BYTES, UnreadResponses

LARGE = FREE_BYTES + 1


class Client:
    """Requests a response of some bytes, and takes nothing of it before `takes` is set."""

    def __init__(self, unread: UnreadResponses, size: int) -> None:
        self.takes = asyncio.Event()
        self.status = 0
        self.received = 0
        self._size = size
        self.serving = asyncio.create_task(
            unread.serve(self._application, {"method": "GET"}, self._receive, self._send)
        )

    async def _application(self, _: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(self._size - 1), "more_body": True})
        await send({"type": "http.response.body", "body": b"x"})

    async def _receive(self) -> Any:
        raise AssertionError("no body is read")

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        await self.takes.wait()
        self.received += len(message["body"])


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_responses_that_are_not_taken_leave_no_room_for_others() -> None:
    """Small ones are sent nevertheless, and the room is given back."""

    async def run() -> None:
        unread = UnreadResponses(3 * LARGE - 1)
        clients = [Client(unread, LARGE + 1) for _ in range(3)]
        small = Client(unread, 100)
        await turns()
        assert ([200, 200, 503], 200) == ([it.status for it in clients], small.status)
        for it in [*clients, small]:
            it.takes.set()
            await it.serving
        assert ([LARGE + 1] * 2, 100, 0) == ([it.received for it in clients[:2]], small.received, unread.bytes)

    asyncio.run(run())


def test_one_response_may_be_larger() -> None:
    """Otherwise it could never be sent; one that breaks off gives its room back, too."""

    async def run() -> None:
        unread = UnreadResponses(10)
        client = Client(unread, 2 * LARGE)
        await turns()
        assert 200 == client.status
        client.serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await client.serving
        assert 0 == unread.bytes

    asyncio.run(run())
