"""The clock port.  Only `runtime` implements it with the machine's clocks; other layers get a clock as an argument."""

from typing import Protocol


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Return the milliseconds since the Unix epoch.  The value may jump; safety never depends on it."""
        ...

    def monotonic_ms(self) -> int:
        """Return the milliseconds since an arbitrary moment.  The value never decreases."""
        ...


class PreciseClock(Clock, Protocol):
    """A clock that can also time operations shorter than a millisecond, such as a sync."""

    def monotonic_us(self) -> int:
        """Return the microseconds since the moment from which `monotonic_ms` counts."""
        ...
