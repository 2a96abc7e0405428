"""The client for asyncio, without a broker: its life."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from tidemill.sdk import async_mill
from tidemill.sdk.async_mill import AsyncMill
from tidemill.sdk.async_queue import AsyncQueue
from tidemill.sdk.problems import SendFailed
from tidemill.sdk.record import NewRecord, Sent
from tidemill.sdk.sender import KafkaSender
from tidemill.sdk.timer_topics import TimerTopics


def test_a_client_works_in_one_event_loop_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    mill, received = AsyncMill(http="127.0.0.1:1"), list[int]()

    @mill.worker("t", group="g")
    def handle(message: Any) -> None: ...

    async def receive(self: AsyncQueue, count: int, **_: Any) -> Any:
        received.append(count)
        asyncio.get_running_loop().call_later(0.05, mill.stop)
        await asyncio.Event().wait()

    async def run() -> None:
        async with mill:
            await mill.run()

    monkeypatch.setattr(AsyncQueue, "receive", receive)
    for _ in range(2):
        asyncio.run(asyncio.wait_for(run(), 20))

    assert [1, 1] == received


def test_a_run_that_is_cancelled_while_it_stops_waits_for_no_worker() -> None:
    """Python cancels the main task at a second Ctrl-C."""

    class Endless:
        async def run(self, stopping: asyncio.Event) -> None:
            await asyncio.Event().wait()

    async def run() -> None:
        mill = AsyncMill(http="127.0.0.1:1")
        mill._workers.append(Endless())  # type: ignore[arg-type]
        async with mill:
            running = asyncio.create_task(mill.run_workers())
            await asyncio.sleep(0.05)
            mill.stop()
            running.cancel()
            await asyncio.wait({running})

    asyncio.run(asyncio.wait_for(run(), 10))


def test_queues_that_are_closed_are_forgotten() -> None:
    async def run() -> int:
        async with AsyncMill(http="127.0.0.1:1") as mill:
            for _ in range(10):
                async with mill.queue("t", "g"):
                    pass
            return len(mill._queues)

    assert 1 == asyncio.run(run())


def test_threads_share_one_sender() -> None:
    """A second one would not be flushed, and its records be lost."""

    async def run() -> set[int]:
        async with AsyncMill("127.0.0.1:1", http="127.0.0.1:1", kafka={"log_level": 0}) as mill:
            senders = await asyncio.gather(*(asyncio.to_thread(mill.sender) for _ in range(8)))
            assert isinstance(senders[0], KafkaSender)
            return {id(it) for it in senders}

    assert 1 == len(asyncio.run(run()))


def test_a_client_is_stopped_while_it_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that comes meanwhile must not be lost."""
    mill = AsyncMill(http="127.0.0.1:1")

    @mill.worker("t", group="g")
    def handle(message: Any) -> None: ...

    async def receive(self: AsyncQueue, count: int, **_: Any) -> Any:
        raise AssertionError("the worker was stopped before it began")

    async def open_and_stop(self: AsyncMill) -> None:
        mill.stop()
        await opening(self)

    opening = AsyncMill.open
    monkeypatch.setattr(AsyncQueue, "receive", receive)
    monkeypatch.setattr(AsyncMill, "open", open_and_stop)
    asyncio.run(asyncio.wait_for(mill.run_workers(), 10))


def test_a_client_that_is_stopped_before_it_runs_ends_at_once_and_may_run_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread may call `stop` just before another one calls `run`."""
    mill, received = AsyncMill(http="127.0.0.1:1"), list[int]()

    @mill.worker("t", group="g")
    def handle(message: Any) -> None: ...

    async def receive(self: AsyncQueue, count: int, **_: Any) -> Any:
        received.append(count)
        mill.stop()
        await asyncio.Event().wait()

    async def run() -> None:
        mill.stop()
        await mill.run_workers()
        assert [] == received
        await mill.run_workers()

    monkeypatch.setattr(AsyncQueue, "receive", receive)
    asyncio.run(asyncio.wait_for(run(), 10))

    assert [1] == received


def test_workers_of_a_group_share_its_limit_of_deliveries() -> None:
    """Both would find that the group has none, and the last one would set it."""
    mill = AsyncMill(http="127.0.0.1:1")

    def handle(message: Any) -> None: ...

    mill.worker("t", group="g", attempts=3)(handle)
    mill.worker("u", group="g", attempts=3)(handle)
    mill.worker("u", group="g")(handle)
    mill.worker("t", group="other", attempts=5)(handle)
    with pytest.raises(ValueError, match=r"attempts=5: .*group g, has attempts=3"):
        mill.worker("v", group="g", attempts=5)(handle)


class BoundedSender:
    """A sender that takes `room` records."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.refused = 0
        self.values: list[bytes | None] = []

    def problem(self, _: NewRecord) -> None:
        return None

    def begin(self, record: NewRecord) -> "Future[Sent]":
        if not self.room:
            self.refused += 1
            raise BufferError
        self.room -= 1
        self.values.append(record.value)
        sent: Future[Sent] = Future()
        sent.set_result(Sent(record.topic, 0, len(self.values)))
        return sent

    def close(self) -> None:
        pass


def test_records_that_wait_for_room_are_not_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with equal keys keep their order, such as a schedule and its cancellation."""
    sender = BoundedSender(room=1)
    monkeypatch.setattr(AsyncMill, "sender", lambda _: sender)

    async def run() -> None:
        async with AsyncMill(http="127.0.0.1:1") as mill:
            sending = [asyncio.create_task(mill.send("t", str(number), key="k")) for number in range(3)]
            await asyncio.sleep(0)
            sending[1].cancel()
            sender.room = 10
            await mill.send("t", "3", key="k")
            await asyncio.gather(*sending, return_exceptions=True)

    for _ in range(2):  # in one event loop after another
        asyncio.run(asyncio.wait_for(run(), 20))
        sender.room = 1

    assert [b"0", b"2", b"3"] * 2 == sender.values


def test_timer_headers_by_hand_pass_no_record_that_waits_for_the_kind_of_its_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They may cancel its timer.  They wait for nothing else: on other topics, they have no effect."""
    sender, asked = BoundedSender(room=10), asyncio.Event()

    async def described(*_: Any) -> Any:
        await asked.wait()
        return {"kind": "timer"}

    async def run() -> None:
        async with AsyncMill(http="127.0.0.1:1") as mill:
            named = {"tidemill-timer-id": "a"}
            sending = [
                asyncio.create_task(mill.send(topic, value, key="k", **more))
                for topic, value, more in (
                    ("t", "timer", {"timer_id": "a", "delay": "1h"}),
                    ("t", "moved", {"headers": {**named, "tidemill-delay": "2h"}}),
                    ("t", "again", {"timer_id": "a", "delay": "3h"}),
                    ("t", "cancelled", {"headers": {**named, "tidemill-cancel": ""}}),
                    ("t", "no timer", {"headers": {"trace": "1"}}),
                    ("u", "elsewhere", {"headers": named}),
                )
            ]
            await asyncio.sleep(0.01)
            asked.set()
            await asyncio.gather(*sending)

    monkeypatch.setattr(AsyncMill, "sender", lambda _: sender)
    monkeypatch.setattr(TimerTopics, "_described", described)
    asyncio.run(asyncio.wait_for(run(), 20))

    assert [b"no timer", b"elsewhere", b"timer", b"moved", b"again", b"cancelled"] == sender.values


def test_records_without_room_fail_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that wait behind others do not wait for as long once more."""
    monkeypatch.setattr(async_mill, "BUFFER_S_MAX", 1.0)
    monkeypatch.setattr(AsyncMill, "sender", lambda _: BoundedSender(room=0))

    async def run() -> list[Any]:
        async with AsyncMill(http="127.0.0.1:1") as mill:
            return await asyncio.gather(*(mill.send("t", b"") for _ in range(100)), return_exceptions=True)

    failed = asyncio.run(asyncio.wait_for(run(), 20))

    assert 100 == len(failed)
    assert all(isinstance(it, SendFailed) and "too many others wait" in str(it) for it in failed)


def test_records_wait_for_room_while_others_get_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large crowd takes longer than one record may wait alone."""
    sender = BoundedSender(room=0)
    monkeypatch.setattr(AsyncMill, "sender", lambda _: sender)

    async def run() -> None:
        loop, passed_s = asyncio.get_running_loop(), 0.0
        real_time = loop.time
        monkeypatch.setattr(loop, "time", lambda: real_time() + passed_s)
        async with AsyncMill(http="127.0.0.1:1") as mill:
            sending = [asyncio.create_task(mill.send("t", b"")) for _ in range(5)]
            await _reached(lambda: sender.refused > 0)
            for number in range(5):
                passed_s += async_mill.BUFFER_S_MAX * 2 / 3
                refused = sender.refused
                await _reached(lambda refused=refused: sender.refused > refused)
                sender.room = 1
                await _reached(lambda number=number: len(sender.values) > number)
            await asyncio.gather(*sending)

    asyncio.run(run())

    assert 5 == len(sender.values)


async def _reached(is_reached: Callable[[], bool]) -> None:
    for _ in range(2_000):  # a sender has no events
        if is_reached():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("a record neither got room nor was refused")


def test_records_that_wait_for_room_fail_when_the_client_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They fail as all records that are not written."""
    sender = BoundedSender(room=0)
    monkeypatch.setattr(AsyncMill, "sender", lambda _: sender)

    def closed(record: NewRecord) -> "Future[Sent]":
        raise ValueError("the client is closed")

    async def run() -> list[Any]:
        async with AsyncMill(http="127.0.0.1:1") as mill:
            sending = [asyncio.create_task(mill.send("t", b"")) for _ in range(3)]
            await asyncio.sleep(0)
        monkeypatch.setattr(sender, "begin", closed)
        return await asyncio.gather(*sending, return_exceptions=True)

    failed = asyncio.run(asyncio.wait_for(run(), 20))

    assert [("SendFailed", "a record was not written to topic t: the client is closed")] * 3 == [
        (type(it).__name__, str(it)) for it in failed
    ]
