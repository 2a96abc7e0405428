"""A worker: what becomes of a message, however its handler ends."""

import asyncio
import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidemill.sdk.leases import Leases
from tidemill.sdk.message import AsyncMessage, message_of
from tidemill.sdk.problems import BrokersUnavailable
from tidemill.sdk.worker import Worker

LEASE_MS = 60_000


class Api:
    """Accepts each decision, or raises `problem`."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, list[str]]] = []
        self.problem: Exception | None = None

    async def call(self, method: str, path: str, body: dict[str, Any], **_: Any) -> dict[str, Any]:
        self.requests.append((path.rpartition("/")[2], body["receipts"]))
        if self.problem is not None:
            raise self.problem
        return {"statuses": ["ok"] * len(body["receipts"])}


class Queue:
    """Delivers messages with the given receipts, and then sets `stopping`."""

    def __init__(self, api: Api, receipts: str, stopping: asyncio.Event) -> None:
        self.leases = Leases(api, "/v1/queues/t/g")  # type: ignore[arg-type]
        self.left = deque(receipts)
        self.messages: list[AsyncMessage] = []
        self._stopping = stopping

    async def receive(self, count: int, *, wait: str) -> list[AsyncMessage]:
        if not self.left:
            self._stopping.set()
            return []
        found = dict.fromkeys(("partition", "offset", "timestamp", "key", "value"), None)
        given = {**found, "attempt": 1, "headers": [], "receipt": self.left.popleft(), "lease_ms": LEASE_MS}
        self.messages.append(message_of("t", given, self.leases))
        return self.messages[-1:]

    async def close(self) -> None:
        await self.leases.release_all()


def run(
    handler: Callable[[Any], Any], receipts: str, api: Api, *, concurrency: int = 1, grace_s: float = 20.0
) -> Queue:
    async def running() -> Queue:
        stopping = asyncio.Event()
        queue = Queue(api, receipts, stopping)
        worker = Worker(
            lambda: api,  # type: ignore[arg-type, return-value]
            lambda: queue,  # type: ignore[arg-type, return-value]
            handler,
            topic="t",
            group="g",
            concurrency=concurrency,
            backoff=None,
            attempts=None,
            grace_s=grace_s,
        )
        await asyncio.wait_for(worker.run(stopping), 20)
        return queue

    return asyncio.run(running())


PROBLEMS = (LookupError, SystemExit, StopIteration, concurrent.futures.CancelledError, asyncio.CancelledError)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_message_is_released_whatever_its_handler_raises(
    problem: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """The next message is handled, and the problem is logged with its traceback."""
    api = Api()

    def handle(message: Any) -> None:
        if message.attempt == 1 and not caplog.records:
            raise problem

    run(handle, "ab", api)

    assert [("nack", ["a"]), ("ack", ["b"])] == api.requests
    assert [True] == [isinstance(it.exc_info[1], problem) for it in caplog.records if it.exc_info]


@pytest.mark.parametrize("problem", [LookupError, SystemExit, asyncio.CancelledError])
def test_a_message_is_released_whatever_its_coroutine_raises(problem: type[BaseException]) -> None:
    api = Api()

    async def handle(message: Any) -> None:
        raise problem

    run(handle, "a", api)

    assert [("nack", ["a"])] == api.requests


def test_a_message_is_not_acknowledged_if_its_handler_has_not_run() -> None:
    """A plain function that returns a coroutine, or has a `yield`, has not done its work yet."""

    async def work() -> None: ...

    begun = work()

    def generator(message: Any) -> Iterator[None]:
        yield

    for handler in (lambda message: begun, generator):
        api = Api()
        run(handler, "a", api)
        assert [("nack", ["a"])] == api.requests
    begun.close()


def test_an_object_with_a_coroutine_as_its_call_is_a_handler() -> None:
    api, handled = Api(), []

    class Handler:
        async def __call__(self, message: AsyncMessage) -> None:
            await asyncio.sleep(0)
            handled.append(message)

    queue = run(Handler(), "a", api)

    assert [("ack", ["a"])] == api.requests
    assert queue.messages == handled


def test_a_message_that_could_not_be_acknowledged_is_renewed_no_more() -> None:
    """Otherwise it would be locked for as long as the worker lives, and never be delivered again."""
    api = Api()
    api.problem = BrokersUnavailable("down")

    queue = run(lambda message: None, "a", api)

    assert [True] == [it.is_lost for it in queue.messages]
    assert [("ack", ["a"])] == api.requests


def test_a_stop_waits_for_a_handler_that_hangs_no_longer_than_the_grace() -> None:
    """Its thread is a daemon, so that the process can end."""
    api, threads, hanging = Api(), list[threading.Thread](), threading.Event()

    def handle(message: Any) -> None:
        threads.append(threading.current_thread())
        hanging.wait(20)

    run(handle, "a", api, concurrency=2, grace_s=0.05)
    hanging.set()

    assert [True] == [it.daemon for it in threads]
    assert [("nack", ["a"])] == api.requests


def test_a_stop_that_is_cancelled_waits_for_no_handler() -> None:
    api = Api()

    async def running() -> None:
        stopping, begun = asyncio.Event(), asyncio.Event()
        queue = Queue(api, "a", stopping)

        async def handle(message: Any) -> None:
            begun.set()
            await asyncio.sleep(60)

        worker = Worker(
            lambda: api,  # type: ignore[arg-type, return-value]
            lambda: queue,  # type: ignore[arg-type, return-value]
            handle,
            topic="t",
            group="g",
            concurrency=1,
            backoff=None,
            attempts=None,
            grace_s=60.0,
        )
        task = asyncio.create_task(worker.run(stopping))
        await begun.wait()
        stopping.set()
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(asyncio.wait_for(running(), 10))

    assert [("nack", ["a"])] == api.requests
