"""Virtual time, and an asyncio event loop on it for each simulated process.

    timeline   one for the whole world: what happens next, in order of time, then of asking
    loop       one per process: its turns, its timers on its own clock; it can be paused, and it ends with the process

A loop turns when something is ready, as asyncio's: what is ready when the turn begins runs in the order it came, what
that makes ready waits for the next turn.  Each call takes a little virtual time, so that two that wake each other for
ever move the clock, and the world's end is reached.

Strict: threads, sockets, signals and subprocesses raise NotImplementedError, and an error that nobody caught ends the
run.  Nothing here depends on hashes, addresses or the machine's clock.
"""

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

US: Final = 1_000_000  # microseconds in a second: virtual time is counted in whole ones
CALL_US: Final = 10  # what one callback takes


class Timeline:
    """`now_us` only goes forward; what is due at the same moment happens in the order it was asked for."""

    def __init__(self) -> None:
        self.now_us = 0
        self.events = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._asked = 0

    def after(self, delay_us: int, call: Callable[[], None]) -> None:
        self._asked += 1
        heapq.heappush(self._heap, (self.now_us + delay_us if delay_us > 0 else self.now_us, self._asked, call))

    def run_until(self, end_us: int, is_over: Callable[[], bool] = lambda: False) -> None:
        """Everything that is due up to `end_us`, or until `is_over` says so."""
        heap = self._heap
        while heap and heap[0][0] <= end_us:
            self.now_us, _, call = heapq.heappop(heap)
            self.events += 1
            call()
            if is_over():
                return
        self.now_us = max(self.now_us, end_us)


class SimulatedLoop(asyncio.AbstractEventLoop):
    """One process's.  `rate` is how fast its monotonic clock runs, `boot_us` what that showed at its start."""

    def __init__(self, timeline: Timeline, *, rate: float = 1.0, boot_us: int = 0) -> None:
        self.timeline = timeline
        self.rate = rate
        self.turned: Callable[[], None] = _nothing  # called after each turn: for what must hold then
        self.failed: Callable[[BaseException], None] = _raise  # an error that nobody caught
        self._boot_us = boot_us
        self._began_us = timeline.now_us
        self._ready: deque[asyncio.Handle] = deque()
        self._is_turn_due = False
        self._is_dead = False
        self._paused_until_us = 0
        self._busy_until_us = 0
        self._failures: list[BaseException] = []
        self._tasks: list[asyncio.Task[Any]] = []  # kept: a dead process's coroutines must not run their ends

    # Life.

    @property
    def is_alive(self) -> bool:
        return not self._is_dead

    def kill(self) -> None:
        """Nothing of this process happens any more."""
        self._is_dead = True
        self._ready.clear()
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]

    def pause(self, duration_us: int) -> None:
        """As by SIGSTOP: threads too.  What is due meanwhile happens behind it, in its order."""
        self._paused_until_us = max(self._paused_until_us, self.timeline.now_us + duration_us)

    def resume(self) -> None:
        """From now on; what was put off until the pause's end stays so."""
        self._paused_until_us = self.timeline.now_us

    def after(self, delay_us: int, call: Callable[[], None]) -> None:
        """As `Timeline.after`, for what this process does itself, on any of its threads."""

        def guarded() -> None:
            if self._is_dead:
                return
            if self.timeline.now_us < self._paused_until_us:
                self.timeline.after(self._paused_until_us - self.timeline.now_us, guarded)
                return
            try:
                call()
            except BaseException as error:
                self.failed(error)

        self.timeline.after(delay_us, guarded)

    # The part of asyncio that is there.

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
        """Called by asyncio where an error has nobody left: the next step of the loop ends the run with it."""
        self._failures.append(context.get("exception") or RuntimeError(context["message"]))

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It stays on the timeline, and does nothing when it is due."""

    # Turns.

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
        self.turned()


def begin_loop(timeline: Timeline, *, rate: float = 1.0, boot_us: int = 0) -> SimulatedLoop:
    """Of a process that starts now.  What a loop does not support it inherits, and refuses."""
    return SimulatedLoop(timeline, rate=rate, boot_us=boot_us)  # type: ignore[abstract]


def _nothing() -> None:
    """What is called after a turn when nobody looks."""


def _raise(error: BaseException) -> None:
    raise error
