"""The simulated machine on which a broker runs: its clocks, its seeded randomness, and threads whose jobs take time.

A job takes virtual time twice: until its thread has executed it, and until the loop receives the result.  A process
that dies in between has executed the job but never received the result; the journal must tolerate this.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeVar

from tidemill.broker.machine import Machine
from tidemill.peer.link import LinkOwner, Links
from tidemill.simulation.machine.event_loop import US, SimulatedLoop
from tidemill.telemetry.event_log import EventLog, Field

T = TypeVar("T")

BEGIN_MS: Final = 1_700_000_000_000  # the time of a correct wall clock at the start of virtual time
READ_THREADS: Final = 2
CLOCK_DRIFT_MAX: Final = 0.1  # clocks run up to 5 % faster or slower than virtual time, so up to 10 % apart
_Job = tuple[Callable[[], Any], Callable[[Any], None], Callable[[BaseException], None]]


@dataclass(slots=True)
class WallClock:
    """The wall clock of a machine.  It outlives the processes, and differs from the true time by `skew_us`."""

    skew_us: int = 0


@dataclass(slots=True)
class DiskPace:
    """The mean duration of jobs on the disk of a machine, in microseconds.  No job ends before `stalled_until_us`."""

    sync_us: int = 500
    slowness: int = 1  # the factor by which jobs take longer
    stalled_until_us: int = 0


class SimulatedClock:
    """The clocks as one process sees them."""

    def __init__(self, loop: SimulatedLoop, wall: WallClock) -> None:
        self._loop = loop
        self._wall = wall

    def wall_ms(self) -> int:
        return BEGIN_MS + (int(self._loop.timeline.now_us * self._loop.rate) + self._wall.skew_us) // 1000

    def monotonic_ms(self) -> int:
        return self._loop.monotonic_us() // 1000

    def monotonic_us(self) -> int:
        return self._loop.monotonic_us()


class SeededEntropy:
    def __init__(self, random: Random) -> None:
        self._random = random

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


class TimedJobs:
    """The Jobs port: `threads` threads of a process, whose jobs take random times that depend on the disk's pace."""

    def __init__(
        self,
        loop: SimulatedLoop,
        random: Random,
        pace: DiskPace,
        *,
        threads: int = 1,
        executed: Callable[[Any], None] | None = None,
    ) -> None:
        """`executed` receives the result of each job before the loop does."""
        self._loop = loop
        self._random = random
        self._pace = pace
        self._idle = threads
        self._executed = executed
        self._waiting: deque[_Job] = deque()

    def submit(self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[BaseException], None]) -> None:
        self._waiting.append((job, done, failed))
        self._begin()

    def _begin(self) -> None:
        if self._idle and self._waiting:
            self._idle -= 1
            job = self._waiting.popleft()
            self._loop.after(self._duration_us(), lambda: self._execute(*job))

    def _duration_us(self) -> int:
        pace = self._pace
        stalled_us = max(0, pace.stalled_until_us - self._loop.timeline.now_us)
        return stalled_us + 1 + int(self._random.expovariate(1 / pace.sync_us)) * pace.slowness

    def _execute(
        self, job: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[BaseException], None]
    ) -> None:
        if self._pace.stalled_until_us > self._loop.timeline.now_us:  # the disk began to stall after the job had begun
            self._loop.after(self._duration_us(), lambda: self._execute(job, done, failed))
            return
        result: Any = None
        problem: Exception | None = None
        try:
            result = job()
        except Exception as error:
            problem = error
        else:
            if self._executed is not None:
                self._executed(result)

        def report() -> None:
            self._idle += 1
            self._begin()
            if problem is not None:
                self._loop.call_soon(failed, problem)
            else:
                self._loop.call_soon(done, result)

        self._loop.after(self._duration_us() // 8, report)


class StrictEventLog(EventLog):
    """An event log that raises unexpected exceptions, which are bugs, so that they end the run."""

    def failure(self, event: str, error: BaseException, **fields: Field) -> None:
        raise error


def simulated_machine(
    loop: SimulatedLoop,
    random: Random,
    *,
    wall: WallClock,
    pace: DiskPace,
    failed: Callable[[BaseException], None],
    links: Callable[[LinkOwner], Links],
    tell: Callable[[str], object],
    executed: Callable[[Any], None],
) -> Machine:
    """
    Return the machine of a process.  `failed` is called with a fatal error, `tell` with each line of the event log, and
    `executed` with each synced block.
    """
    clock = SimulatedClock(loop, wall)

    def jobs(threads: int = 1, executed: Callable[[Any], None] | None = None) -> TimedJobs:
        return TimedJobs(loop, Random(random.getrandbits(64)), pace, threads=threads, executed=executed)

    entropy = SeededEntropy(Random(random.getrandbits(64)))
    journal_jobs, background_jobs = jobs(executed=executed), jobs()
    read_jobs = jobs(READ_THREADS)
    return Machine(
        turns=loop,
        clock=clock,
        entropy=entropy,
        journal_jobs=journal_jobs,
        background_jobs=background_jobs,
        read_jobs=read_jobs,
        opening_jobs=read_jobs,
        compression_jobs=read_jobs,
        write_back_jobs=jobs(),
        call_later=loop.call_later,
        clock_drift_max=CLOCK_DRIFT_MAX,
        failed=failed,
        links=links,
        events=StrictEventLog(tell, clock.wall_ms, as_json=False),
    )


def seconds(count: float) -> int:
    """Convert seconds to microseconds."""
    return int(count * US)
