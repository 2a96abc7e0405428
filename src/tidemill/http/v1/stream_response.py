"""An ASGI response whose body is sent part by part, and ends when the client leaves."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from tidemill.http.v1.calls import disconnected


class StreamResponse:
    def __init__(self, parts: AsyncGenerator[bytes | bytearray, None], content_type: str) -> None:
        self._parts = parts
        self._content_type = content_type

    async def __call__(self, _: Any, receive: Any, send: Any) -> None:
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(disconnected(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        except asyncio.CancelledError:  # the broker stops; the client continues at another one
            await _ended(sending)
            await send({"type": "http.response.body", "body": b""})
        finally:
            leaving.cancel()
            await _ended(sending)  # the parts take memory of this request, which is given back when it returns

    async def _send(self, send: Any) -> None:
        headers = [
            (b"content-type", self._content_type.encode()),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with aclosing(self._parts) as parts:  # at once, because it may read ahead until then
            async for part in parts:
                await send_part(send, part)
        await send({"type": "http.response.body", "body": b""})


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancel a task, and wait until it has ended."""
    task.cancel()
    await asyncio.wait((task,))


async def send_part(send: Any, part: bytes | bytearray) -> None:
    """Send a part of a body.  Raise ClientTooSlow if the client does not take it."""
    await send({"type": "http.response.body", "body": part, "more_body": True})
