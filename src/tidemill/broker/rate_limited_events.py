"""A rate limit for log events that clients or peers can cause at will.  Metrics count every occurrence."""

from typing import Final

from tidemill.model.clock import Clock

LOGGED_MAX: Final = 20
INTERVAL_MS: Final = 10_000


class RateLimitedEvents:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logged = 0
        self._since_ms = 0

    def may_log(self) -> bool:
        """Return whether this event may be logged.  Call it once per event."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._since_ms >= INTERVAL_MS:
            self._since_ms, self._logged = now_ms, 0
        self._logged += 1
        return self._logged <= LOGGED_MAX
