"""A wall clock that tests move forward."""

from tidemill.testing.movable_clock import MovableClock


class StoppedClock:
    def wall_ms(self) -> int:
        return 1_000

    def monotonic_ms(self) -> int:
        return 50

    def monotonic_us(self) -> int:
        return 50_000


def test_only_the_wall_clock_moves() -> None:
    """
    Sessions and locks, which the monotonic clock times, do not end when the wall clock moves.
    """
    clock = MovableClock(StoppedClock(), ahead_ms=10)

    clock.advance(200)
    clock.advance(3)

    assert (1_213, 50, 50_000) == (clock.wall_ms(), clock.monotonic_ms(), clock.monotonic_us())
