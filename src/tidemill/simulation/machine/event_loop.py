"""Virtual time, and an asyncio event loop on it for each simulated process.

    timeline   one per simulation: its events, ordered by time, then by the order of scheduling
    loop       one per process: its turns and its timers, on its own clock; can be paused, and ends with the process

A loop turns when callbacks are ready, as in asyncio.  Callbacks that are ready when the turn begins run in their order;
callbacks that become ready during the turn wait for the next one.  Each call takes a little virtual time, so that the
clock advances, and the run ends, even if two callbacks schedule each other forever.

The loop is strict: threads, sockets, signals and subprocesses raise NotImplementedError, and an uncaught error ends the
run.  Nothing depends on hash values, memory addresses or the real clock.
"""

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

US: Final = 1_000_000  # microseconds per second; virtual time is an integer number of microseconds
CALL_US: Final = 10  # the duration of one callback


class Timeline:
    """
    The event queue.  `now_us` never decreases; events that are due at the same time run in the order in which they were
    scheduled.
    """

    def __init__(self) -> None:
        self.now_us = 0
        self.events = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._scheduled = 0

    def after(self, delay_us: int, call: Callable[[], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._heap, (self.now_us + delay_us if delay_us > 0 else self.now_us, self._scheduled, call))

    def run_until(self, end_us: int, is_over: Callable[[], bool] = lambda: False) -> None:
        """Run the events that are due by `end_us`, or only until `is_over` returns True."""
        heap = self._heap
        while heap and heap[0][0] <= end_us:
            self.now_us, _, call = heapq.heappop(heap)
            self.events += 1
            call()
            if is_over():
                return
        self.now_us = max(self.now_us, end_us)


class SimulatedLoop(asyncio.AbstractEventLoop):
    """
    The loop of one process.  Its monotonic clock starts at `boot_us` and runs `rate` times as fast as virtual time.
    """

    def __init__(self, timeline: Timeline, *, rate: float = 1.0, boot_us: int = 0) -> None:
        self.timeline = timeline
        self.rate = rate
        self.after_turn: Callable[[], None] = _nothing  # called after each turn, to check invariants
        self.failed: Callable[[BaseException], None] = _raise  # called with an uncaught error
        self._boot_us = boot_us
        self._began_us = timeline.now_us
        self._ready: deque[asyncio.Handle] = deque()
        self._is_turn_due = False
        self._is_dead = False
        self._paused_until_us = 0
        self._busy_until_us = 0
        self._failures: list[BaseException] = []
        # Keeps the coroutines of a dead process alive, so that their `finally` blocks do not run.
        self._tasks: list[asyncio.Task[Any]] = []

    # Pausing and ending the process.

    @property
    def is_alive(self) -> bool:
        return not self._is_dead

    def kill(self) -> None:
        """End the process: none of its scheduled calls is made after this."""
        self._is_dead = True
        self._ready.clear()
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]

    def pause(self, duration_us: int) -> None:
        """
        Stop the process and its threads, as SIGSTOP does.  Calls that become due during the pause are made after it, in
        order.
        """
        self._paused_until_us = max(self._paused_until_us, self.timeline.now_us + duration_us)

    def resume(self) -> None:
        """End the pause now.  Events that were already postponed to its scheduled end stay postponed."""
        self._paused_until_us = self.timeline.now_us

    def after(self, delay_us: int, call: Callable[[], None]) -> None:
        """
        Schedule `call` as work of this process, regardless of which thread would do it.  The call is dropped if the
        process has been killed by then, and postponed while the process is paused.
        """
        # A function within this method that names itself would be garbage in a cycle, after each of many events.
        self.timeline.after(delay_us, partial(self._call, call))

    def _call(self, call: Callable[[], None]) -> None:
        if self._is_dead:
            return
        if self.timeline.now_us < self._paused_until_us:
            self.after(self._paused_until_us - self.timeline.now_us, call)
            return
        try:
            call()
        except BaseException as error:
            self.failed(error)

    # The methods of asyncio that the loop supports.

    def time(self) -> float:
        return self.monotonic_us() / US

    def monotonic_us(self) -> int:
        return self._boot_us + int((self.timeline.now_us - self._began_us) * self.rate)

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if self._is_dead:
            handle.cancel()
            return handle
        self._ready.append(handle)
        if not self._is_turn_due:
            self._schedule_turn()
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(self.time() + delay, callback, args, self, context)

        def due() -> None:
            if not handle.cancelled():
                self._ready.append(handle)
                if not self._is_turn_due:
                    self._schedule_turn()

        self.after(int(delay * US / self.rate) + 1, due)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_later(when - self.time(), callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._is_dead

    def is_closed(self) -> bool:
        return self._is_dead

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Record an error that asyncio could not deliver.  The loop raises the error after the current callback."""
        self._failures.append(context.get("exception") or RuntimeError(context["message"]))

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled handle stays on the timeline and is skipped when it is due."""

    # Running the loop's turns.

    def _schedule_turn(self) -> None:
        self._is_turn_due = True
        self.after(self._busy_until_us - self.timeline.now_us, self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        ready = self._ready
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            count = len(ready)
            for _ in range(count):
                if self._is_dead:
                    return
                handle = ready.popleft()
                if not handle.cancelled():
                    handle._run()
                if self._failures:
                    raise self._failures.pop(0)
        finally:
            asyncio._set_running_loop(before)
        self._busy_until_us = self.timeline.now_us + CALL_US * count
        if ready and not self._is_turn_due:
            self._schedule_turn()
        self.after_turn()


def begin_loop(timeline: Timeline, *, rate: float = 1.0, boot_us: int = 0) -> SimulatedLoop:
    """Return a loop for a process that starts now.  Methods that the loop does not define raise NotImplementedError."""
    return SimulatedLoop(timeline, rate=rate, boot_us=boot_us)  # type: ignore[abstract]


def _nothing() -> None:
    """Do nothing after a turn."""


def _raise(error: BaseException) -> None:
    raise error
