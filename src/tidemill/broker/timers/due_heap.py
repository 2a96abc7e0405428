"""DueHeap: lets each timer partition that this broker leads release records when they are due.

    a partition has changed ─▶ in the next turn, once: release what is due ─▶ armed with its next time ─▶ looked at then

Each shard has a release clock of its own, and wall clocks step.  So a shard has a heap of the times of its clock, and
one timer waits for the heap whose first time comes first.  A partition that lingers is in a heap of monotonic times
instead.  A tick looks at the first of each heap, too: it notices steps of clocks, and clocks that have become known.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, Protocol

from tidemill.broker.machine import Machine
from tidemill.shard.partition import Partition

TURN_RECORDS_MAX: Final = 2_000  # released in one turn of the event loop, so that it serves others soon, if it is slow
STALE_MAX: Final = 64  # entries of a heap that do not count any more, beyond as many as those that do


class DuePartition(Protocol):
    """The part of `LedTimers` that the heap uses."""

    released_at: int  # monotonic ms of the last release

    @property
    def partition(self) -> Partition: ...

    @property
    def next_due(self) -> int | None:
        """When to release next, in ms since the epoch; None while nothing waits or nothing can be released."""
        ...

    def compute_occurrences(self) -> None:
        """Begin to compute when released records with schedules are due next."""
        ...

    def release(self, now_ms: int, records_max: int) -> int:
        """Release what is due, and return the number of records."""
        ...


class _Times:
    """The partitions that wait for times of one clock."""

    def __init__(self, now_ms: Callable[[], int | None]) -> None:
        """`now_ms` returns what the clock shows; None while that is not known."""
        self.now_ms = now_ms
        self.of: dict[DuePartition, int] = {}
        self._heap: list[tuple[int, int, DuePartition]] = []  # with a serial number; some do not count any more
        self._serial = count()

    def put(self, led: DuePartition, at_ms: int) -> None:
        if self.of.get(led) == at_ms:
            return
        self.of[led] = at_ms
        heappush(self._heap, (at_ms, next(self._serial), led))
        if len(self._heap) > 2 * len(self.of) + STALE_MAX:
            self._heap = [(at_ms, next(self._serial), led) for led, at_ms in self.of.items()]
            heapify(self._heap)

    def remove(self, led: DuePartition) -> None:
        self.of.pop(led, None)

    def first(self) -> int | None:
        """Return the first time; None if no partition waits."""
        while self._heap and self.of.get(self._heap[0][2]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self) -> DuePartition:
        """Remove the partition that waits for the first time, and return it."""
        led = heappop(self._heap)[2]
        del self.of[led]
        return led

    def left_ms(self) -> int | None:
        """Return how long it takes until the first time; None if no partition waits, or the clock is not known."""
        first = self.first()
        now_ms = None if first is None else self.now_ms()
        return None if first is None or now_ms is None else first - now_ms


class DueHeap:
    def __init__(self, machine: Machine, *, evaluated: Callable[[DuePartition], None]) -> None:
        """`evaluated` takes each partition that was just looked at, whether it has released records or not."""
        self._machine = machine
        self._evaluated = evaluated
        self._moved: dict[DuePartition, None] = {}  # evaluated in the next turn
        self._lingering = _Times(machine.clock.monotonic_ms)
        self._of_shard: dict[object, _Times] = {}
        self._timer: Any = None

    def wake(self, led: DuePartition) -> None:
        """Evaluate a partition in the next turn, once, however often it changes in this one."""
        if not self._moved:
            self._machine.turns.call_soon(self._evaluate)
        self._moved[led] = None

    def is_armed(self, led: DuePartition) -> bool:
        """Return whether a time is known at which the partition is looked at."""
        times = self._of_shard.get(led.partition.shard)
        return led in self._lingering.of or (times is not None and led in times.of)

    def drop(self, led: DuePartition) -> None:
        """Forget a partition that is not led any more."""
        self._moved.pop(led, None)
        self._disarm(led)
        times = self._of_shard.get(led.partition.shard)
        if times is not None and not times.of:
            del self._of_shard[led.partition.shard]

    def fire(self) -> None:
        """Let those partitions release whose time has come, by the clock of each.  A tick calls this, too."""
        for times in self._clocks():
            now_ms = times.now_ms()
            while now_ms is not None and (first := times.first()) is not None and first <= now_ms:
                self.wake(times.pop())
        self._arm(self._machine.clock.monotonic_ms())

    def _evaluate(self) -> None:
        moved, self._moved = self._moved, {}
        now_ms, left = self._machine.clock.monotonic_ms(), TURN_RECORDS_MAX
        for led in moved:
            if left > 0:
                left -= self._release(led, now_ms, left)
                self._evaluated(led)
            else:
                self.wake(led)
        self._arm(now_ms)

    def _release(self, led: DuePartition, now_ms: int, records_max: int) -> int:
        """Release what is due of a partition, and return the number of records.  Note when to look at it again."""
        led.compute_occurrences()
        linger_ms, released = led.partition.config.timer_linger_ms, 0
        if now_ms - led.released_at >= linger_ms:
            released = led.release(now_ms, records_max)
        due, shard = led.next_due, led.partition.shard
        limit = shard.release_limit
        if due is None:
            self._disarm(led)
        elif limit is not None and due <= limit:
            self._disarm(led)
            self._lingering.put(led, max(led.released_at + linger_ms, now_ms + 1))
        else:
            self._lingering.remove(led)
            times = self._of_shard.get(shard)
            if times is None:
                times = self._of_shard[shard] = _Times(lambda: shard.release_limit)
            times.put(led, due)
        return released

    def _disarm(self, led: DuePartition) -> None:
        self._lingering.remove(led)
        times = self._of_shard.get(led.partition.shard)
        if times is not None:
            times.remove(led)

    def _clocks(self) -> list[_Times]:
        return [self._lingering, *self._of_shard.values()]

    def _arm(self, now_ms: int) -> None:
        """Wait for the time that comes first."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lefts = [left for times in self._clocks() if (left := times.left_ms()) is not None]
        if lefts:
            self._timer = self._machine.call_later(max(min(lefts), 1) / 1_000, self._timed)

    def _timed(self) -> None:
        self._timer = None
        self.fire()
