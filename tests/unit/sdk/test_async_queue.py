"""A queue for asyncio: what it does with messages that come late."""

import asyncio
from typing import Any

from tidemill.sdk.async_queue import AsyncQueue
from tidemill.sdk.message import message_of

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
        self.counted: list[bool] = []  # whether the deliveries count, by request

    async def call(self, method: str, path: str, body: dict[str, Any], **_: Any) -> dict[str, Any]:
        action = path.rpartition("/")[2]
        if action == "receive":
            await self.delivering.wait()
            return {"messages": [MESSAGE]}
        self.requests.append((action, body["receipts"]))
        self.counted.append(body.get("counted", True))
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
        assert ([("nack", ["r"])], [False]) == (api.requests, api.counted)

    asyncio.run(asyncio.wait_for(run(), 10))


def test_a_message_whose_lease_was_lost_while_it_waited_is_left_out() -> None:
    """Another consumer may work on it already."""

    async def run() -> list[str]:
        api = Api()
        api.delivering.set()
        async with AsyncQueue(api, "t", "g", consumer="c") as queue:  # type: ignore[arg-type]
            found = [message_of("t", {**MESSAGE, "receipt": it}, queue._leases) for it in "ab"]
            queue._received.extend(found)
            queue._leases.abandon(found[0]._lease)
            return [(await anext(queue))._lease.receipt for _ in range(2)]

    assert ["b", "r"] == asyncio.run(asyncio.wait_for(run(), 10))


def test_messages_that_the_program_has_not_seen_do_not_count_as_delivered() -> None:
    """Otherwise they would be set aside after a few programs that have received them ahead of time."""

    async def run() -> tuple[list[tuple[str, list[str]]], list[bool]]:
        api = Api()
        async with AsyncQueue(api, "t", "g", consumer="c") as queue:  # type: ignore[arg-type]
            queue._received.extend(message_of("t", {**MESSAGE, "receipt": it}, queue._leases) for it in "abc")
            await anext(queue)
        return api.requests, api.counted

    requests, counted = asyncio.run(asyncio.wait_for(run(), 10))

    assert {("nack", ("a",), True), ("nack", ("b", "c"), False)} == {
        (action, tuple(receipts), it) for (action, receipts), it in zip(requests, counted, strict=True)
    }
