"""MovableClock: the clock of the machine, except that its wall clock can be moved forward."""

from tidemill.model.clock import PreciseClock


class MovableClock:
    """Implements `model.clock.PreciseClock`.  Time passes as on the machine, and moves forward at each `advance`."""

    def __init__(self, clock: PreciseClock, ahead_ms: int = 0) -> None:
        """`clock` is that of the machine.  The wall clock begins `ahead_ms` ahead of it."""
        self._clock = clock
        self._ahead_ms = ahead_ms

    def advance(self, ms: int) -> None:
        assert ms >= 0, "a wall clock that goes back makes delays longer"
        self._ahead_ms += ms

    def wall_ms(self) -> int:
        return self._clock.wall_ms() + self._ahead_ms

    def monotonic_ms(self) -> int:
        """Return the machine's time: heartbeats, sessions and locks are timed by it, and a jump would end them all."""
        return self._clock.monotonic_ms()

    def monotonic_us(self) -> int:
        return self._clock.monotonic_us()
