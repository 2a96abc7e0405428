"""Responses are sent in parts, as fast as their clients take them."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from tidemill.http import sending
from tidemill.http.sending import PART_BYTES, ClientTooSlow, HeadSent, in_parts


def sent(method: str, *messages: MutableMapping[str, Any]) -> list[MutableMapping[str, Any]]:
    found: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        found.append(message)

    async def run() -> None:
        send_message = in_parts(send, method)
        for message in messages:
            await send_message(message)

    asyncio.run(run())
    return found


@pytest.mark.parametrize(("size", "sizes"), [
    (0, [0]), (1, [1]), (PART_BYTES, [PART_BYTES]), (PART_BYTES + 1, [PART_BYTES, 1]),
    (2 * PART_BYTES, [PART_BYTES, PART_BYTES]), (2 * PART_BYTES + 5, [PART_BYTES, PART_BYTES, 5]),
])  # fmt: skip
def test_a_large_body_is_sent_in_parts(size: int, sizes: list[int]) -> None:
    """
    The parts are the body, and only the last one ends it.
    """
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)

    found = sent("GET", {"type": "http.response.body", "body": body})

    assert sizes == [len(it["body"]) for it in found]
    assert body == b"".join(it["body"] for it in found)
    assert [True] * (len(sizes) - 1) + [False] == [it.get("more_body", False) for it in found]


def test_a_head_request_gets_no_body() -> None:
    """
    The response to HEAD ends with its headers, even if the response to GET is a stream without an end.
    """
    found: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        found.append(message)

    with pytest.raises(HeadSent):
        asyncio.run(in_parts(send, "HEAD")({"type": "http.response.start", "status": 200, "headers": []}))

    assert ["http.response.start", "http.response.body"] == [it["type"] for it in found]


def test_a_client_that_takes_nothing_ends_its_response(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    If a part is not taken in time, the response ends with an error about the client.
    """
    monkeypatch.setattr(sending, "SEND_S_MAX", 0.01)

    async def send(_: MutableMapping[str, Any]) -> None:
        await asyncio.Event().wait()

    with pytest.raises(ClientTooSlow, match="taken nothing"):
        asyncio.run(in_parts(send, "GET")({"type": "http.response.body", "body": b"1"}))
