"""Receiving messages of a queue: what becomes of those that cannot be received."""

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.batches.builder import build_batch
from tidemill.batches.compression import Codec
from tidemill.http.v1.budgets import RESPONSE_BYTES_MAX, Budgets, Exhausted, Taken
from tidemill.http.v1.queues import ReceiveBody, receive_messages
from tidemill.peer import share_receipts, share_receive
from tidemill.share.acknowledged_receipts import UNDO
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.share.receipt import decode_receipt

TOPIC: Any = SimpleNamespace(name="t", topic_id=b"\x01" * 16, partition_count=1)
BODY = ReceiveBody("c", max=10)


class LeaderStub:
    """Stands for a broker that leads the partition: it delivers batches once, and notes what is decided about them."""

    broker_id = 1
    wall_ms = 1_000
    image = SimpleNamespace(topic_by_id=lambda _: TOPIC)

    def __init__(self, *batches: bytes | bytearray, records: int) -> None:
        self._batches = b"".join(batches)
        self._records = records
        self._background: list[asyncio.Task[Any]] = []
        self.decided: list[tuple[int, list[int]]] = []

    def random_number(self) -> int:
        return 7

    def place(self, *_: object) -> Any:
        return SimpleNamespace(leader=1, partition=0)

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        self._background.append(asyncio.ensure_future(work))

    async def ended(self) -> None:
        await asyncio.gather(*self._background)

    async def ask(self, _: int, __: object, request: Any, ___: object = None) -> Any:
        if isinstance(request, share_receipts.Request):
            self.decided.append((request.acknowledge_type, [it.offset for it in request.deliveries]))
            return share_receipts.Response(outcomes=[0] * len(request.deliveries))
        acquired = share_receive.Response.AcquiredRecords(
            first_offset=0, last_offset=self._records - 1, delivery_count=1
        )
        return share_receive.Response(lock_ms=1_000, acquired=[acquired], records=[memoryview(self._batches)], term=1)


def batch(first: int, *values: bytes) -> bytearray:
    data = bytearray(build_batch([(None, value, (), 0) for value in values]))
    data[0:8] = first.to_bytes(8)
    return data


def test_what_cannot_be_decoded_is_rejected_and_holds_up_nothing() -> None:
    """The readable messages of the same delivery are received."""
    bad = batch(1, b"x", b"y")
    bad[22] |= Codec.ZSTD
    leader = LeaderStub(batch(0, b"before"), bad, batch(3, b"after"), records=4)

    async def run() -> list[Any]:
        found = await receive_messages(leader, TOPIC, "g", BODY, Taken())  # type: ignore[arg-type]
        await leader.ended()
        return found

    messages = asyncio.run(run())

    assert [(0, "before"), (3, "after")] == [(it.offset, it.value) for it in messages]
    receipts = [decode_receipt(it.receipt) for it in messages]
    assert [0, 3] == [it.offset for it in receipts if it is not None]
    assert [(Acknowledgement.REJECT, [1, 2])] == leader.decided


def test_messages_that_there_is_no_memory_for_are_given_back() -> None:
    """Clients that read no response would fill it otherwise; a delivery that was not sent does not count."""
    budgets, leader = Budgets(), LeaderStub(batch(0, b"a" * 100), records=1)

    async def run() -> None:
        with Taken(budgets) as slow, Taken(budgets) as taken:
            slow.response(RESPONSE_BYTES_MAX - 10)
            with pytest.raises(Exhausted):
                await receive_messages(leader, TOPIC, "g", BODY, taken)  # type: ignore[arg-type]
            await leader.ended()
            slow.give_back(100)
            assert await receive_messages(leader, TOPIC, "g", BODY, taken)  # type: ignore[arg-type]
            assert RESPONSE_BYTES_MAX - 10 == budgets.response_bytes

    asyncio.run(run())

    assert [(UNDO, [0])] == leader.decided
    assert 0 == budgets.response_bytes
