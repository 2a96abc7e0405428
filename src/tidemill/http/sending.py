"""Sends responses no faster than their clients take them, and not to clients that take nothing."""

import asyncio
from typing import Final

from tidemill.http.answer import Scope, Send

PART_BYTES: Final = 64 << 10  # the server keeps about two parts of a response that its client does not take
SEND_S_MAX: Final = 60.0  # for one part


class ClientTooSlow(ConnectionError):
    """The client has not taken a part of its response in time."""


class HeadSent(Exception):
    """The response to a HEAD request is complete: nothing else need be sent."""


def in_parts(send: Send, method: str) -> Send:
    """Return a function that sends messages in parts.  It raises ClientTooSlow, and HeadSent."""

    async def send_one(message: Scope) -> None:
        try:
            async with asyncio.timeout(SEND_S_MAX):
                await send(message)
        except TimeoutError:
            raise ClientTooSlow(f"the client has taken nothing of its response for {SEND_S_MAX:.0f} s") from None

    async def send_message(message: Scope) -> None:
        if method == "HEAD":
            await send_one(message)
            await send_one({"type": "http.response.body", "body": b""})
            raise HeadSent
        body = message.get("body", b"")
        for start in range(0, len(body) - PART_BYTES, PART_BYTES):
            await send_one({"type": message["type"], "body": body[start : start + PART_BYTES], "more_body": True})
        done = max(-(-len(body) // PART_BYTES) - 1, 0) * PART_BYTES
        await send_one(message if not done else {**message, "body": body[done:]})

    return send_message
