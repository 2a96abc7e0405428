"""Receiving messages of a queue: what becomes of those that cannot be received."""

import asyncio
import threading
import time
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tidemill.batches.batch import HEADER_BYTES
from tidemill.batches.builder import build_batch
from tidemill.batches.compression import Codec, compress
from tidemill.batches.records import OPENED_HEADERS_MAX
from tidemill.http.v1 import queues
from tidemill.http.v1.budgets import RESPONSE_BYTES_MAX, Budgets, Exhausted, Taken
from tidemill.http.v1.calls import Refused
from tidemill.http.v1.queues import UNREADABLE_BYTES, ReceiveBody, receive_messages
from tidemill.http.v1.record_schema import DECOMPRESSED_BYTES_MAX, RECORD_MEMORY, Base64
from tidemill.model.topic import TopicId
from tidemill.peer import share_receipts, share_receive
from tidemill.share.acknowledged_receipts import UNDO
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.share.receipt import Receipt, decode_receipt

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
        self.decoding = asyncio.Semaphore(1)
        self._background: list[asyncio.Task[Any]] = []
        self.first = 0  # the first offset that is acquired
        self.asked = asyncio.Event()
        self.decided: list[tuple[int, list[int]]] = []

    def random_number(self) -> int:
        return 7

    def place(self, *_: object) -> Any:
        return SimpleNamespace(leader=1, partition=0)

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        self._background.append(asyncio.ensure_future(work))

    async def ended(self) -> None:
        await asyncio.gather(*self._background)

    async def ask(self, _: int, __: object, request: Any, ___: object = None, **____: object) -> Any:
        if isinstance(request, share_receipts.Request):
            self.decided.append((request.acknowledge_type, [it.offset for it in request.deliveries]))
            return share_receipts.Response(outcomes=[0] * len(request.deliveries))
        self.asked.set()
        acquired = share_receive.Response.AcquiredRecords(
            first_offset=self.first, last_offset=self._records - 1, delivery_count=1
        )
        return share_receive.Response(lock_ms=1_000, acquired=[acquired], records=[memoryview(self._batches)], term=1)


def batch(first: int, *values: bytes) -> bytearray:
    data = bytearray(build_batch([(None, value, (), 0) for value in values]))
    data[0:8] = first.to_bytes(8)
    return data


def bomb(first: int, size: int) -> bytearray:
    """Return a small batch whose only record decompresses to `size` zeros."""
    data = batch(first, bytes(size))
    data[HEADER_BYTES:] = compress(Codec.ZSTD, data[HEADER_BYTES:])
    data[8:12] = (len(data) - 12).to_bytes(4)
    data[22] |= Codec.ZSTD
    return data


def received_from(leader: LeaderStub, body: ReceiveBody = BODY) -> list[Any]:
    async def run() -> list[Any]:
        found = await receive_messages(leader, TOPIC, "g", body, Taken())  # type: ignore[arg-type]
        await leader.ended()
        return found

    return asyncio.run(run())


def test_a_response_opens_a_bounded_number_of_bytes() -> None:
    """The messages of the batches behind are given back uncounted, and received later."""
    third = DECOMPRESSED_BYTES_MAX // 3
    leader = LeaderStub(*(bomb(first, third) for first in range(5)), records=5)

    messages = received_from(leader)

    assert [0, 1] == [it.offset for it in messages], "each has a few bytes more than a third"
    assert [(UNDO, [2, 3, 4])] == leader.decided


def test_a_batch_that_decompresses_to_too_much_is_rejected() -> None:
    """It would fill the memory of the broker whenever it is received, and no response could be sent."""
    leader = LeaderStub(bomb(0, DECOMPRESSED_BYTES_MAX + 1), batch(1, b"after"), records=2)

    messages = received_from(leader)

    assert ["after"] == [it.value for it in messages]
    assert [(Acknowledgement.REJECT, [0])] == leader.decided


class LeaderlessStub(LeaderStub):
    """Knows no leader until it has been asked for one `turns` times."""

    def __init__(self, turns: int) -> None:
        super().__init__(batch(0, b"found"), records=1)
        self.turns = turns

    def place(self, *_: object) -> Any:
        self.turns -= 1
        return super().place() if self.turns < 0 else None


@pytest.mark.parametrize("partition", [None, 0])
def test_a_wait_for_messages_waits_for_a_leader_as_well(partition: int | None) -> None:
    """A leader is elected within seconds; the client would only repeat its request."""
    waiting = ReceiveBody("c", wait_ms=20_000, partition=partition)

    assert ["found"] == [it.value for it in received_from(LeaderlessStub(4), waiting)]


@pytest.mark.parametrize("partition", [None, 0])
@pytest.mark.parametrize("wait_ms", [0, 250])
def test_a_partition_that_has_no_leader_during_the_wait_is_told(partition: int | None, wait_ms: int) -> None:
    """An empty response would say that there are no messages.  One may be elected until the wait ends."""
    leader, began_at = LeaderlessStub(1_000), time.monotonic()
    with pytest.raises(Refused, match="has a leader" if partition is None else "partition 0 of topic t") as refused:
        received_from(leader, ReceiveBody("c", wait_ms=wait_ms, partition=partition))

    assert 503 == refused.value.answer.status
    assert wait_ms / 1_000 <= time.monotonic() - began_at


def test_a_wait_ends_when_the_topic_is_deleted() -> None:
    leader = LeaderlessStub(1_000)
    leader.image = SimpleNamespace(topic_by_id=lambda _: None)
    with pytest.raises(Refused, match="was deleted") as refused:
        received_from(leader, ReceiveBody("c", wait_ms=20_000))

    assert 404 == refused.value.answer.status


def with_headers(first: int, *counts: int) -> bytearray:
    """Return a batch whose records have so many empty headers."""
    data = bytearray(build_batch([(None, b"", [("", None)] * count, 0) for count in counts]))
    data[0:8] = first.to_bytes(8)
    return data


@pytest.mark.parametrize("batches", [[with_headers(0, 30_000, 20_000, 1), batch(3, b"x")], [
    with_headers(0, 30_000), with_headers(1, 20_000), with_headers(2, 1, 0)]])  # fmt: skip
def test_a_response_has_a_bounded_number_of_headers(batches: list[bytearray]) -> None:
    """The messages behind are given back uncounted, and received later: an empty header takes a hundred bytes."""
    leader = LeaderStub(*batches, records=4)

    messages = received_from(leader)

    assert [0, 1] == [it.offset for it in messages]
    assert [(UNDO, [2, 3])] == leader.decided


def test_a_message_with_countless_headers_is_rejected() -> None:
    """No response could have it, and it must not hold up those behind it."""
    leader = LeaderStub(with_headers(0, OPENED_HEADERS_MAX + 1), batch(1, b"after"), records=2)

    messages = received_from(leader)

    assert ["after"] == [it.value for it in messages]
    assert [(Acknowledgement.REJECT, [0])] == leader.decided


def test_records_that_a_header_only_promises_are_not_given_back() -> None:
    """A batch may have fewer records than its header says: they would be received again and again."""
    promising = batch(0, b"x")
    promising[23:27] = (3).to_bytes(4)  # the offset delta of the last record

    leader = LeaderStub(promising, records=4)

    assert [0] == [it.offset for it in received_from(leader)]
    assert [] == leader.decided


def test_few_unreadable_batches_are_opened_at_a_time() -> None:
    """Each of them may decompress to the limit before it is refused."""
    bad = [bomb(first, 10) for first in range(100)]
    for it in bad:
        it[HEADER_BYTES : HEADER_BYTES + 4] = b"none"
    leader = LeaderStub(*bad, records=100)
    body = ReceiveBody("c", max=100)

    async def run() -> None:
        await receive_messages(leader, TOPIC, "g", body, Taken())  # type: ignore[arg-type]
        await leader.ended()

    asyncio.run(run())

    opened = DECOMPRESSED_BYTES_MAX // UNREADABLE_BYTES
    assert {(Acknowledgement.REJECT, (at,)) for at in range(opened)} == {
        (kind, tuple(offsets)) for kind, offsets in leader.decided if kind == Acknowledgement.REJECT
    }
    assert (UNDO, [*range(opened, 100)]) in leader.decided


def test_batches_without_acquired_records_are_not_opened() -> None:
    """They may be damaged or large; other consumers hold their records."""
    bad = bomb(0, 10)
    bad[HEADER_BYTES:] = b"none".ljust(len(bad) - HEADER_BYTES)
    leader = LeaderStub(bad, batch(1, b"after"), records=2)
    leader.first = 1

    assert ["after"] == [it.value for it in received_from(leader)]
    assert [] == leader.decided


def test_messages_are_decoded_outside_the_event_loop() -> None:
    """A large message would hold up every other request of the broker."""
    leader = LeaderStub(batch(0, b"a"), records=1)
    opened_in: list[int] = []
    opened = queues._opened

    def noted(*arguments: Any) -> Any:
        opened_in.append(threading.get_ident())
        return opened(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queues, "_opened", noted)
        assert received_from(leader)

    assert threading.get_ident() not in opened_in
    assert opened_in


def test_a_client_that_leaves_before_its_messages_are_decoded_gives_them_back() -> None:
    """They would be locked until the lease ends otherwise."""
    leader = LeaderStub(batch(0, b"a", b"b"), records=2)

    async def run() -> None:
        async with leader.decoding:  # another request decodes
            receiving = asyncio.ensure_future(
                receive_messages(leader, TOPIC, "g", BODY, Taken())  # type: ignore[arg-type]
            )
            await leader.asked.wait()
            await asyncio.sleep(0)
            receiving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await receiving
        await leader.ended()

    asyncio.run(run())

    assert [(UNDO, [0, 1])] == leader.decided


def test_control_characters_take_little_more_room_than_bytes() -> None:
    """In JSON, text with them would take six times as much."""
    (message,) = received_from(LeaderStub(batch(0, bytes(300)), records=1))

    assert Base64(bytes(300)) == message.value
    assert 400 + len('{"base64":""}') == len(msgspec.json.encode(message.value))


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
            slow.give_back(1_000)
            assert await receive_messages(leader, TOPIC, "g", BODY, taken)  # type: ignore[arg-type]
            assert RESPONSE_BYTES_MAX - 1_010 + 100 + RECORD_MEMORY == budgets.response_bytes

    asyncio.run(run())

    assert [(UNDO, [0])] == leader.decided
    assert 0 == budgets.response_bytes


def test_a_receipt_of_a_partition_that_the_broker_has_not_heard_of_is_sent_again() -> None:
    """Partitions may just have been added, and another broker has delivered the message: its lease has not ended."""
    receipt = Receipt(TopicId(TOPIC.topic_id), TOPIC.partition_count, 3, 1, 1, 7).encode()

    async def acknowledged() -> list[str]:
        leader: Any = LeaderStub(records=0)
        return await queues._acknowledge(leader, "g", Acknowledgement.ACCEPT, [receipt])

    assert ["unknown"] == asyncio.run(acknowledged())
