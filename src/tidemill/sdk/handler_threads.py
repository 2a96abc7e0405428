"""The threads that call a worker's handler.

They are daemons, unlike those of `ThreadPoolExecutor`, for which Python waits at the end of a program: a handler that
hangs would keep a stopped worker's process for ever.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """What a call has returned, or the exception that it has raised."""

    result: Any
    problem: BaseException | None


class HandlerThreads:
    """Starts a thread when all others are busy, so the number of calls at the same time bounds that of threads."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[tuple[Callable[[Any], Any], Any, Future[Outcome]] | None] = SimpleQueue()
        self._busy = 0
        self._started = 0

    async def call(self, function: Callable[[Any], Any], argument: Any) -> Outcome:
        """
        Return what `function(argument)` returns or raises.  If this is cancelled, the call goes on in its thread.

        A future cannot hold every exception: StopIteration is refused, and SystemExit would end the event loop.
        """
        called: Future[Outcome] = Future()
        called.set_running_or_notify_cancel()
        self._busy += 1
        if self._busy > self._started:
            self._started += 1
            Thread(target=self._run, name=f"{self._name}-{self._started}", daemon=True).start()
        self._calls.put((function, argument, called))
        try:
            return await asyncio.wrap_future(called)
        finally:
            self._busy -= 1

    def close(self) -> None:
        """End the threads, each after its present call."""
        for _ in range(self._started):
            self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            function, argument, called = call
            try:
                outcome = Outcome(function(argument), None)
            except BaseException as problem:
                outcome = Outcome(None, problem)
            called.set_result(outcome)
