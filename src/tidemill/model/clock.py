"""The clock port: time is an argument, and only `runtime` asks the machine for it."""

from typing import Protocol


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Milliseconds since the epoch, UTC.  May jump; nothing's safety depends on it."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds from an unknown start.  Never goes back."""
        ...
