"""Rate limit of events that clients or peers can cause at will; a metric counts all of them."""

from typing import Final

from tidemill.model.clock import Clock

TOLD_MAX: Final = 20
WHILE_MS: Final = 10_000


class RateLimitedEvents:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told = 0
        self._since_ms = 0

    def may_tell(self) -> bool:
        """Whether this event may be logged; called once per event."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._since_ms >= WHILE_MS:
            self._since_ms, self._told = now_ms, 0
        self._told += 1
        return self._told <= TOLD_MAX
