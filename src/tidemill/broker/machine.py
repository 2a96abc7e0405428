"""The services that a broker needs from its machine: clock, entropy, threads, timers and an event log."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tidemill.model.clock import PreciseClock
from tidemill.model.entropy import Entropy
from tidemill.peer.link import LinkOwner, Links
from tidemill.shard.jobs import Jobs
from tidemill.telemetry.event_log import EventLog
from tidemill.timer.release_clock import DRIFT_MAX


class Turns(Protocol):
    """The part of the event loop that the broker needs."""

    def call_soon(self, callback: Callable[[], None]) -> object: ...


def _no_time() -> int:
    """Return 0: on a simulated machine, code takes no CPU time."""
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The services of the real machine or of a simulated one."""

    turns: Turns
    clock: PreciseClock
    entropy: Entropy
    journal_jobs: Jobs
    write_back_jobs: Jobs  # a separate thread, so that a slow write-back does not delay acknowledgements
    background_jobs: Jobs
    read_jobs: Jobs
    opening_jobs: Jobs  # a single thread, so that one batch is decompressed at a time: OPENED_BYTES_MAX bounds its size
    compression_jobs: Jobs  # separate threads, so that recompression does not delay reads
    call_later: Callable[[float, Callable[[], None]], Any]  # (seconds, callback) → object with `cancel()`
    failed: Callable[[BaseException], None]  # called when the machine has failed; ends the process
    events: EventLog
    clock_drift_max: float = DRIFT_MAX  # how much faster than real time the monotonic clock may run, as a fraction
    cpu_us: Callable[[], int] = _no_time  # the CPU time of all threads of this process, in µs
    links: Callable[[LinkOwner], Links] | None = None  # opens links to other brokers; None for a broker without peers
