"""The clock port.  Only `runtime` implements it with the machine's clocks; other layers receive it as an argument."""

from typing import Protocol


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Return milliseconds since the Unix epoch, UTC.  The value may jump; safety never depends on it."""
        ...

    def monotonic_ms(self) -> int:
        """Return milliseconds from an arbitrary start.  The value never decreases."""
        ...
