"""A queue for asyncio: what it does with messages that come late."""

import asyncio
from typing import Any

from tidemill.sdk.async_queue import AsyncQueue

MESSAGE = {
    **dict.fromkeys(("partition", "offset", "attempt"), 0),
    **dict.fromkeys(("timestamp", "key", "value"), None),
    "headers": [],
    "receipt": "r",
    "lease_ms": 60_000,
}


class Api:
    """Delivers one message when `delivering` is set, and accepts each decision."""

    def __init__(self) -> None:
        self.delivering = asyncio.Event()
        self.requests: list[tuple[str, list[str]]] = []

    async def call(self, method: str, path: str, body: dict[str, Any], **_: Any) -> dict[str, Any]:
        action = path.rpartition("/")[2]
        if action == "receive":
            await self.delivering.wait()
            return {"messages": [MESSAGE]}
        self.requests.append((action, body["receipts"]))
        return {"statuses": ["ok"] * len(body["receipts"])}


def test_a_message_that_comes_after_the_queue_is_closed_is_released() -> None:
    """Otherwise its lease would be renewed for ever, although no task has the message."""

    async def run() -> None:
        api = Api()
        queue = AsyncQueue(api, "t", "g", consumer="c")  # type: ignore[arg-type]
        iterating = asyncio.create_task(anext(queue, None))
        await asyncio.sleep(0)
        await queue.close()
        api.delivering.set()

        assert await iterating is None
        assert [("nack", ["r"])] == api.requests

    asyncio.run(asyncio.wait_for(run(), 10))
