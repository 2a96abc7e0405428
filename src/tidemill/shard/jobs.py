"""The jobs port: blocking work that runs off the event loop.

A job uses only the values that were passed to it.  Either `done` or `failed` is called once, on the event loop, in a
turn after the call of `submit`.  A single worker (such as the journal's) runs and reports jobs in the order of
submission; multiple workers (such as those for reads) guarantee no order.

Implementations: `runtime/thread_jobs.py` and `simulation/machine/jobs.py`.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class Jobs(Protocol):
    def submit(self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[BaseException], None]) -> None:
        """
        Run `job`, then call `done` with its result or `failed` with its exception.  The caller bounds the number of
        jobs in flight.
        """
        ...


class Workers(NamedTuple):
    """
    The workers for a shard's blocking work.  `background` has one worker, for all work except reads and the journal.
    """

    read: Jobs
    background: Jobs
    failed: Callable[[BaseException], None]  # takes the exception of a failed job, and ends the process
