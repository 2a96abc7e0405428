"""Collapses log events that the same client causes repeatedly."""

from collections.abc import Hashable
from typing import Final

from tidemill.broker.rate_limited_events import RateLimitedEvents
from tidemill.model.clock import Clock

INTERVAL_MS: Final = 60_000  # short, so that the log soon shows whether a change to the client has solved the problem
KEYS_MAX: Final = 1_000  # bounds the memory; the event of a forgotten key is logged again


class RepeatedEvents:
    """
    Collapses events that have the same key, for example the client's host: at most one per key and interval is logged.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rate = RateLimitedEvents(clock)  # many keys at once must not flood the log either
        self._logged_ms: dict[Hashable, int] = {}  # per key, the time when it was last logged; oldest first
        self._left_out: dict[Hashable, int] = {}  # per key, the number of events not logged since that time

    def occurred(self, key: Hashable) -> int | None:
        """
        Count an event with this key.

        Return None if the event must not be logged; otherwise, the number of events with this key that were not
        logged since the last one that was.
        """
        now_ms = self._clock.monotonic_ms()
        last_ms = self._logged_ms.get(key)
        if (last_ms is not None and now_ms - last_ms < INTERVAL_MS) or not self._rate.may_log():
            if last_ms is not None:
                self._left_out[key] = self._left_out.get(key, 0) + 1
            return None
        self._logged_ms.pop(key, None)
        self._logged_ms[key] = now_ms
        if len(self._logged_ms) > KEYS_MAX:
            oldest = next(iter(self._logged_ms))
            del self._logged_ms[oldest]
            self._left_out.pop(oldest, None)
        return self._left_out.pop(key, 0)
