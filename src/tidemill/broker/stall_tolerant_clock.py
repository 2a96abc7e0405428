"""Time in which this process ran: by it a broker judges who is silent.

Who was stopped, or was given no CPU, has read no heartbeat meanwhile: they wait in his sockets.  By the machine's clock
everybody would be silent at his first tick, and a leader that all others still follow would step down.  So of the time
between two ticks only as much counts as a process needs that is healthy (Dadgar et al. 2018, "Lifeguard: Local Health
Awareness for More Accurate Failure Detection").
"""

from typing import Final

from tidemill.model.clock import Clock

STEP_MS_MAX: Final = 500  # twice what lies between two ticks


class StallTolerantClock:
    """`model.clock.Clock`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ticked_at = clock.monotonic_ms()
        self._awake_ms = 0  # until then

    def tick(self) -> None:
        """Called a few times a second."""
        self._awake_ms = self.monotonic_ms()
        self._ticked_at = self._clock.monotonic_ms()

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    def monotonic_ms(self) -> int:
        return self._awake_ms + min(self._clock.monotonic_ms() - self._ticked_at, STEP_MS_MAX)
