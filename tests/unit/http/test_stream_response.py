"""Responses that are sent part by part."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from tidemill.http.v1.stream_response import StreamResponse


def test_a_client_that_leaves_ends_the_reading_at_once() -> None:
    """
    Also while it takes nothing: what reads ahead for the response is not left to the garbage collector, and takes no
    memory of a request that has ended.
    """
    closed, is_sending = list[bool](), asyncio.Event()

    async def parts() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"part"
        finally:
            closed.append(True)

    async def receive() -> dict[str, Any]:
        await is_sending.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            is_sending.set()
            await asyncio.Event().wait()

    async def run() -> None:
        source = parts()
        await StreamResponse(source, "text/plain")({}, receive, send)
        assert [True] == closed
        del source

    asyncio.run(run())
