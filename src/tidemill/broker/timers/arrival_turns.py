"""ArrivalTurns: batches for timer topics take turns, because their records may have schedules, which take long.

In one turn of the event loop, the batches of all clients together take about `TURN_MS_MAX`.  The others wait for a
later turn, in the order in which they came.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from tidemill.broker.machine import Turns
from tidemill.model.clock import Clock

TURN_MS_MAX: Final = 20


class ArrivalTurns:
    def __init__(self, turns: Turns, clock: Clock) -> None:
        self._turns = turns
        self._clock = clock
        self._begun_ms: int | None = None  # when a batch was first asked for in this turn; None if none was
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def is_over(self) -> bool:
        """Whether the next batch has to wait for a later turn.  Ask before each one."""
        now_ms = self._clock.monotonic_ms()
        if self._begun_ms is None:
            self._begun_ms = now_ms
            self._turns.call_soon(self._begin)
        return now_ms - self._begun_ms >= TURN_MS_MAX

    def wait(self, resume: Callable[[], None]) -> None:
        """Let `resume` be called in a later turn; `is_over` has been True in this one."""
        self._waiting.append(resume)

    def _begin(self) -> None:
        """Begin the next turn: those that wait are resumed."""
        self._begun_ms = None
        while self._waiting and not self.is_over:
            self._waiting.popleft()()
