"""The event loop of the client for threads: nothing that waits for it waits for ever."""

import asyncio
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tidemill.sdk.loop_thread import LoopThread


async def wait_for_ever(begun: threading.Event) -> None:
    begun.set()
    await asyncio.Event().wait()


async def end_the_loop() -> None:
    raise SystemExit


def test_a_call_ends_when_another_thread_closes_the_loop() -> None:
    loop, begun = LoopThread(), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        called = threads.submit(lambda: loop.call(wait_for_ever(begun)))
        assert begun.wait(10)
        loop.close()
        with pytest.raises(ValueError, match="closed meanwhile"):
            called.result(10)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_call_ends_when_something_else_has_ended_the_loop() -> None:
    loop, begun = LoopThread(), threading.Event()
    waiting = loop.begin(wait_for_ever(begun))
    with pytest.raises(SystemExit):
        loop.begin(end_the_loop()).result(10)

    loop.close()
    assert waiting.cancelled()
    with pytest.raises(ValueError, match="is closed"):
        loop.call(wait_for_ever(begun))


def test_a_closed_loop_refuses_calls_and_may_be_closed_again() -> None:
    loop = LoopThread()
    loop.close()
    loop.close()
    loop.call_soon(lambda: None)

    with pytest.raises(ValueError, match="is closed"):
        loop.call(wait_for_ever(threading.Event()))


def test_a_call_after_a_fork_is_refused() -> None:
    """The child has no thread that would run it."""
    loop = LoopThread()
    context = multiprocessing.get_context("fork")
    told, telling = context.Pipe(duplex=False)

    def child() -> None:
        try:
            loop.call(asyncio.sleep(0))
        except RuntimeError as problem:
            telling.send(str(problem))

    process = context.Process(target=child, daemon=True)
    process.start()

    assert told.poll(20)
    assert "connect in each process" in told.recv()
    process.join(10)
    loop.close()


def test_a_call_in_the_loop_itself_is_refused() -> None:
    """A handler that is a coroutine function would wait for itself, and hang its worker for ever."""
    loop = LoopThread()

    async def handle() -> None:
        with pytest.raises(RuntimeError, match="in a handler that is a coroutine function"):
            loop.call(asyncio.sleep(0))

    try:
        loop.call(handle())
    finally:
        loop.close()
