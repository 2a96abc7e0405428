"""The jobs port: blocking work that runs off the event loop.

A job touches only what it was given.  Either `done` or `failed` is called once, on the event loop, in a later turn than
`submit`.  With one worker (the journal's) jobs run and are reported in the order of submission; with several workers
(reads) there is no order.

Implementations: `runtime/thread_jobs.py` and `simulation/machine/jobs.py`.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class Jobs(Protocol):
    def submit(self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[BaseException], None]) -> None:
        """Start `job`.  The caller bounds the jobs in flight: two blocks for the journal, a window for readers."""
        ...


class Workers(NamedTuple):
    """The workers for a shard's blocking work.  `background` has one worker, for all but reads and the journal."""

    read: Jobs
    background: Jobs
    failed: Callable[[BaseException], None]  # ends the process
