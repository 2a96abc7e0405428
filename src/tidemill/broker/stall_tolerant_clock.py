"""A clock that leaves out stalls of this process; the broker uses it to decide which peers are silent.

A process that was stopped, or got no CPU time, has read no heartbeats meanwhile: they wait in its sockets.  By the
machine's clock every peer would be silent at its first tick, and a leader that all others still follow would step down.
So the time between two ticks counts only up to what a healthy process needs (Dadgar et al. 2018, "Lifeguard: Local
Health Awareness for More Accurate Failure Detection").
"""

from typing import Final

from tidemill.model.clock import Clock

STEP_MS_MAX: Final = 500  # twice the time between two ticks


class StallTolerantClock:
    """`model.clock.Clock`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ticked_at = clock.monotonic_ms()
        self._awake_ms = 0  # at the last tick

    def tick(self) -> None:
        """Called a few times a second."""
        self._awake_ms = self.monotonic_ms()
        self._ticked_at = self._clock.monotonic_ms()

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    def monotonic_ms(self) -> int:
        return self._awake_ms + min(self._clock.monotonic_ms() - self._ticked_at, STEP_MS_MAX)
