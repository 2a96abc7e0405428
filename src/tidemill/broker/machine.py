"""What a broker asks of the machine: time, chance, threads, timers, and somewhere to tell what happens."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidemill.broker.shards.ready_loop import Turns
from tidemill.model.clock import Clock
from tidemill.model.entropy import Entropy
from tidemill.peer.link import LinkOwner, Links
from tidemill.shard.jobs import Jobs
from tidemill.telemetry.event_log import EventLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The real one, or its twin in simulation."""

    turns: Turns
    clock: Clock
    entropy: Entropy
    journal_jobs: Jobs
    write_back_jobs: (
        Jobs  # a thread of its own: a disk cache that is slow to take bytes keeps no acknowledgement waiting
    )
    background_jobs: Jobs
    read_jobs: Jobs
    call_later: Callable[[float, Callable[[], None]], Any]  # seconds; gives something with `cancel()`
    failed: Callable[[BaseException], None]  # the machine is wrong: end the process
    events: EventLog
    links: Callable[[LinkOwner], Links] | None = None  # to other brokers; None: there are none
