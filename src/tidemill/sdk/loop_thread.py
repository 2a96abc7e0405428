"""An event loop in a thread of its own, so that threads can use asynchronous code."""

import asyncio
import concurrent.futures
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from threading import Lock, Thread, current_thread
from typing import Any, Final, TypeVar

Result = TypeVar("Result")
CANCEL_S_MAX: Final = 5.0  # how long the end waits for tasks that it has cancelled


def check_process(pid: int) -> None:
    """Raise RuntimeError in another process than `pid`: a fork copies no threads, so that calls would never end."""
    if os.getpid() != pid:
        raise RuntimeError("the client was connected before a fork: connect in each process")


class LoopThread:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._lock = Lock()  # what has begun before the end is in the loop before `stop`
        self._is_closed = False
        self._thread = Thread(target=self._run, name="tidemill-client", daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        """Run a coroutine in the loop.  Raise ValueError if the client is closed."""
        try:
            check_process(self._pid)
            with self._lock:
                if self._is_closed:
                    raise ValueError("the client is closed")
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        except (RuntimeError, ValueError):
            work.close()
            raise

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """
        Run a coroutine in the loop, and return its result.  It is cancelled if Ctrl-C interrupts the wait.

        Raise ValueError if another thread closes the client meanwhile, and RuntimeError in the loop itself, which would
        wait for ever.
        """
        try:
            self.check_thread()
        except RuntimeError:
            work.close()
            raise
        begun = self.begin(work)
        try:
            return begun.result()
        except concurrent.futures.CancelledError as error:
            raise ValueError("the client was closed meanwhile") from error
        except BaseException:
            begun.cancel()
            raise

    def check_thread(self) -> None:
        """Raise RuntimeError in the thread of the loop, such as in a handler that is a coroutine function."""
        if current_thread() is self._thread:
            raise RuntimeError(
                "this call waits, in a handler that is a coroutine function: make the handler a function, or use "
                "tidemill.connect_async and `await`"
            )

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call a function in the loop, unless that has ended."""
        if not self._is_closed:
            self._loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        """Cancel what runs, and end the thread."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            with self._lock:
                self._is_closed = True
            self._loop.run_until_complete(_cancel_others())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()


async def _cancel_others() -> None:
    """Cancel the tasks of this loop: threads wait for them."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=CANCEL_S_MAX)
