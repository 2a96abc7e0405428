"""Each timer partition releases when its records are due by its own shard's clock, whatever the others wait for."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tidemill.broker.timers import due_heap
from tidemill.broker.timers.due_heap import DueHeap

LAG_MS = 5_000
YEAR_MS = 365 * 24 * 3_600_000


class _Shard:
    def __init__(self, world: "_World", behind_ms: int | None) -> None:
        self._world = world
        self.behind_ms = behind_ms  # None: its clock is not known

    @property
    def release_limit(self) -> int | None:
        return None if self.behind_ms is None else self._world.now_ms - self.behind_ms


class _Partition:
    def __init__(self, world: "_World", shard: _Shard, *dues: int, linger_ms: int = 0) -> None:
        self.partition: Any = SimpleNamespace(shard=shard, config=SimpleNamespace(timer_linger_ms=linger_ms))
        self.released_at = -YEAR_MS
        self.dues = sorted(dues)
        self.released: list[int] = []  # when
        self.evaluated = 0
        self._world = world

    @property
    def next_due(self) -> int | None:
        return self.dues[0] if self.dues else None

    def compute_occurrences(self) -> None:
        self.evaluated += 1

    def release(self, now_ms: int, records_max: int) -> int:
        limit = self.partition.shard.release_limit
        due = [] if limit is None else [it for it in self.dues if it <= limit][:records_max]
        del self.dues[: len(due)]
        if due:
            self.released_at = now_ms
            self.released += [now_ms] * len(due)
        return len(due)


class _World:
    """A clock that passes in milliseconds, timers, and turns of an event loop."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._calls: list[Callable[[], None]] = []
        self._timer: Any = None
        machine: Any = SimpleNamespace(
            clock=SimpleNamespace(monotonic_ms=lambda: self.now_ms),
            turns=SimpleNamespace(call_soon=self._calls.append),
            call_later=self._call_later,
        )
        self.heap = DueHeap(machine, evaluated=lambda _: None)

    def led(self, *dues: int, behind_ms: int | None = 0, linger_ms: int = 0) -> _Partition:
        found = _Partition(self, _Shard(self, behind_ms), *dues, linger_ms=linger_ms)
        self.heap.wake(found)
        return found

    def turn(self) -> None:
        calls, self._calls[:] = [*self._calls], []
        for call in calls:
            call()

    def pass_time(self, duration_ms: int) -> None:
        """Let time pass without a tick."""
        end = self.now_ms + duration_ms
        while True:
            while self._calls:
                self.turn()
            timer = self._timer
            if timer is None or timer.is_cancelled or timer.at_ms > end:
                break
            self.now_ms, self._timer = timer.at_ms, None
            timer.callback()
        self.now_ms = end

    def _call_later(self, delay_s: float, callback: Callable[[], None]) -> Any:
        self._timer = timer = SimpleNamespace(
            at_ms=self.now_ms + round(delay_s * 1_000), callback=callback, is_cancelled=False
        )
        timer.cancel = lambda: setattr(timer, "is_cancelled", True)
        return timer


def test_a_shard_whose_clock_lags_does_not_delay_other_shards() -> None:
    world = _World()
    slow = world.led(100, behind_ms=LAG_MS)
    fast = world.led(200)
    world.pass_time(1_000)

    assert [] == slow.released
    assert [200] == fast.released

    world.pass_time(LAG_MS)

    assert [100 + LAG_MS] == slow.released


def test_a_shard_whose_clock_is_not_known_does_not_delay_other_shards() -> None:
    world = _World()
    unknown = world.led(100, behind_ms=None)
    known = world.led(200)
    world.pass_time(1_000)

    assert [200] == known.released

    unknown.partition.shard.behind_ms = 0
    world.heap.fire()
    world.pass_time(0)

    assert [1_000] == unknown.released


def test_a_partition_that_lingers_does_not_delay_others() -> None:
    world = _World()
    lingers = world.led(10, 20, linger_ms=1_000)
    other = world.led(50)
    world.pass_time(2_000)

    assert [50] == other.released
    assert [10, 1_010] == lingers.released


def test_a_partition_lingers_by_the_monotonic_clock_when_the_wall_clock_steps_back() -> None:
    world = _World()
    lingers = world.led(10, 11, linger_ms=1_000)
    world.pass_time(500)
    lingers.partition.shard.behind_ms = 400  # a step back; the second record is due all the same
    world.pass_time(1_000)

    assert [10, 1_010] == lingers.released


def test_a_tick_notices_that_a_clock_has_stepped_forward() -> None:
    world = _World()
    led = world.led(3_600_000)
    world.pass_time(100)
    led.partition.shard.behind_ms = -3_600_000
    world.heap.fire()
    world.pass_time(0)

    assert [100] == led.released


def test_a_partition_is_evaluated_once_in_a_turn() -> None:
    world = _World()
    led = world.led()
    world.heap.wake(led)
    world.pass_time(0)

    assert 1 == led.evaluated


def test_a_partition_that_is_dropped_releases_nothing() -> None:
    world = _World()
    armed, moved = world.led(100), world.led()
    world.pass_time(0)
    world.heap.wake(moved)
    world.heap.drop(armed)
    world.heap.drop(moved)
    world.pass_time(1_000)

    assert [] == armed.released
    assert not world.heap.is_armed(armed)
    assert 1 == moved.evaluated


def test_an_earlier_record_brings_the_next_look_forward() -> None:
    world = _World()
    led = world.led(1_000)
    world.pass_time(10)
    led.dues.insert(0, 100)
    world.heap.wake(led)
    world.pass_time(2_000)

    assert [100, 1_000] == led.released


def test_memory_is_bounded_while_records_leave_before_one_that_waits_long() -> None:
    """Each of them brings the next look forward, and leaves an entry that does not count any more."""
    world = _World()
    led = world.led(YEAR_MS)
    for _ in range(10 * due_heap.STALE_MAX):
        led.dues.insert(0, world.now_ms + 1)
        world.heap.wake(led)
        world.pass_time(2)
    (times,) = world.heap._of_shard.values()

    assert 10 * due_heap.STALE_MAX == len(led.released)
    assert len(times._heap) <= due_heap.STALE_MAX + 2
