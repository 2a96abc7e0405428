"""The twin of the machine that a broker runs on: clocks that differ, chance from a seed, threads that take their time.

A job takes virtual time twice: until its thread has carried it out, and until the loop hears of it.  A process that
dies in between has done it, and nobody knows: what a journal must survive.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeVar

from tidemill.broker.machine import Machine
from tidemill.peer.link import LinkOwner, Links
from tidemill.simulation.machine.event_loop import US, SimulatedLoop
from tidemill.telemetry.event_log import EventLog

T = TypeVar("T")

BEGIN_MS: Final = 1_700_000_000_000  # what a true wall clock shows when virtual time begins
READ_THREADS: Final = 2
_Job = tuple[Callable[[], Any], Callable[[Any], None], Callable[[BaseException], None]]


@dataclass(slots=True)
class WallClock:
    """A machine's: it outlives its processes, and may be wrong by `skew_us`."""

    skew_us: int = 0


@dataclass(slots=True)
class DiskPace:
    """How long jobs take on a machine's disk, in microseconds, on average; `stalled_until_us` holds all of them."""

    sync_us: int = 500
    slowness: int = 1  # times as long
    stalled_until_us: int = 0


class SimulatedClock:
    """What one process sees of time."""

    def __init__(self, loop: SimulatedLoop, wall: WallClock) -> None:
        self._loop = loop
        self._wall = wall

    def wall_ms(self) -> int:
        return BEGIN_MS + (int(self._loop.timeline.now_us * self._loop.rate) + self._wall.skew_us) // 1000

    def monotonic_ms(self) -> int:
        return self._loop.monotonic_us() // 1000


class SeededEntropy:
    def __init__(self, random: Random) -> None:
        self._random = random

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


class TimedJobs:
    """The Jobs port: `threads` of a process, which take as long as its disk's pace says."""

    def __init__(
        self,
        loop: SimulatedLoop,
        random: Random,
        pace: DiskPace,
        *,
        threads: int = 1,
        carried_out: Callable[[Any], None] | None = None,
    ) -> None:
        """`carried_out` hears of what a job has given before the loop does."""
        self._loop = loop
        self._random = random
        self._pace = pace
        self._idle = threads
        self._carried_out = carried_out
        self._waiting: deque[_Job] = deque()

    def submit(self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[BaseException], None]) -> None:
        self._waiting.append((job, done, failed))
        self._begin()

    def _begin(self) -> None:
        if self._idle and self._waiting:
            self._idle -= 1
            job = self._waiting.popleft()
            self._loop.after(self._takes_us(), lambda: self._execute(*job))

    def _takes_us(self) -> int:
        pace = self._pace
        stalled_us = max(0, pace.stalled_until_us - self._loop.timeline.now_us)
        return stalled_us + 1 + int(self._random.expovariate(1 / pace.sync_us)) * pace.slowness

    def _execute(
        self, job: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[BaseException], None]
    ) -> None:
        if self._pace.stalled_until_us > self._loop.timeline.now_us:  # it began to hang when the job had begun
            self._loop.after(self._takes_us(), lambda: self._execute(job, done, failed))
            return
        result: Any = None
        problem: Exception | None = None
        try:
            result = job()
        except Exception as error:
            problem = error
        else:
            if self._carried_out is not None:
                self._carried_out(result)

        def report() -> None:
            self._idle += 1
            self._begin()
            if problem is not None:
                self._loop.call_soon(failed, problem)
            else:
                self._loop.call_soon(done, result)

        self._loop.after(self._takes_us() // 8, report)


def simulated_machine(
    loop: SimulatedLoop,
    random: Random,
    *,
    wall: WallClock,
    pace: DiskPace,
    failed: Callable[[BaseException], None],
    links: Callable[[LinkOwner], Links],
    tell: Callable[[str], object],
    carried_out: Callable[[Any], None],
) -> Machine:
    """
    `failed` ends the process; `tell` keeps the lines of its event log; `carried_out` hears of each block that is
    synced.
    """
    clock = SimulatedClock(loop, wall)

    def jobs(threads: int = 1, carried_out: Callable[[Any], None] | None = None) -> TimedJobs:
        return TimedJobs(loop, Random(random.getrandbits(64)), pace, threads=threads, carried_out=carried_out)

    return Machine(
        turns=loop,
        clock=clock,
        entropy=SeededEntropy(Random(random.getrandbits(64))),
        journal_jobs=jobs(carried_out=carried_out),
        background_jobs=jobs(),
        read_jobs=jobs(READ_THREADS),
        write_back_jobs=jobs(),
        call_later=loop.call_later,
        failed=failed,
        links=links,
        events=EventLog(tell, clock.wall_ms, as_json=False),
    )


def seconds(count: float) -> int:
    """In microseconds."""
    return int(count * US)
