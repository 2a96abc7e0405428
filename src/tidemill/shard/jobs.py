"""The jobs port: blocking work, done somewhere else, so that the loop turns meanwhile.

A job runs off the loop and touches only what was handed to it; `done` and `failed` run on the loop, in a later turn
than `submit`, exactly one of them once.  With one worker (the journal's) jobs run one after the other in the order they
were submitted and are reported in that order; with several (reads) there is no order.

Twins: `runtime/thread_jobs.py` and `simulation/machine/jobs.py`.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class Jobs(Protocol):
    def submit(self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[BaseException], None]) -> None:
        """Bounding how many are under way is the caller's part: two blocks for the journal, a window for readers."""
        ...


class Workers(NamedTuple):
    """Who does a shard's blocking work.  `background` has one worker, for everything beside the journal."""

    read: Jobs
    background: Jobs
    failed: Callable[[BaseException], None]  # ends the process
