"""A clock that does not count stalls of this process.  The broker uses it to decide which peers are silent.

While a process is stopped or gets no CPU time, it reads no heartbeats: they wait in its sockets.  According to the
machine's clock, every peer would seem silent at the first tick after the stall, and a leader that all others still
follow would step down.  So at most `STEP_MS_MAX` of the time between two ticks counts (Dadgar et al. 2018, "Lifeguard:
Local Health Awareness for More Accurate Failure Detection").
"""

from typing import Final

from tidemill.model.clock import Clock

STEP_MS_MAX: Final = 500  # twice the time between two ticks


class StallTolerantClock:
    """A clock that does not count stalls of this process; implements `model.clock.Clock`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ticked_at = clock.monotonic_ms()
        self._running_ms = 0  # this clock's time at the last tick

    def tick(self) -> None:
        """Count the time since the last tick.  Called every 250 ms."""
        self._running_ms = self.monotonic_ms()
        self._ticked_at = self._clock.monotonic_ms()

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    def monotonic_ms(self) -> int:
        return self._running_ms + min(self._clock.monotonic_ms() - self._ticked_at, STEP_MS_MAX)
