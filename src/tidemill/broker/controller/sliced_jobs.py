"""SlicedJobs: runs long computations one after the other, one slice in each turn of the event loop.

    run (generator) ─▶ queue ─▶ next slice ─▶ other work of this turn ─▶ next slice ─▶ … ─▶ its result

The pure cores say where a slice ends (`rebalance/slices`).
"""

from collections import deque
from dataclasses import dataclass
from typing import Any, TypeVar

from tidemill.broker.machine import Turns
from tidemill.rebalance.slices import Slices
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown, Pending

T = TypeVar("T")


@dataclass(slots=True)
class _Job:
    slices: Slices[Any]
    pending: Pending[Any]


class SlicedJobs:
    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._jobs: deque[_Job] = deque()  # the first one is running
        self._is_scheduled = False

    def run(self, slices: Slices[T]) -> Pending[T | OutcomeUnknown]:
        """
        Return the result of a computation, which begins when all earlier ones have ended; OUTCOME_UNKNOWN if it is
        given up.  An error that it raises goes to `failed` of the returned `Pending`.
        """
        job = _Job(slices, Pending())
        self._jobs.append(job)
        self._schedule()
        return job.pending

    def give_up(self) -> None:
        """End all computations without a result."""
        jobs, self._jobs = self._jobs, deque()
        for job in jobs:
            job.slices.close()
            job.pending.complete(OUTCOME_UNKNOWN)

    def _schedule(self) -> None:
        if self._jobs and not self._is_scheduled:
            self._is_scheduled = True
            self._turns.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        if not self._jobs:
            return  # it was given up
        job = self._jobs[0]
        try:
            next(job.slices)
        except StopIteration as end:
            self._end(job)
            job.pending.complete(end.value)
        except Exception as error:
            self._end(job)
            job.pending.fail(error)
        self._schedule()

    def _end(self, job: _Job) -> None:
        if self._jobs and self._jobs[0] is job:
            self._jobs.popleft()
