"""Deadlines for requests that are waiting for other brokers, without one timer per request.

Requests with the same time limit expire in the order in which they were added, so each tick examines only requests that
have expired.  A request expires up to one tick late.
"""

from typing import Protocol

from tidemill.model.clock import Clock


class Expiring(Protocol):
    def expire(self) -> None:
        """Respond with what is known so far: the deadline has passed."""
        ...


class Deadlines:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[int, dict[Expiring, int]] = {}  # time limit in ms → request → deadline in ms

    def add(self, waiting: Expiring, limit_ms: int) -> None:
        """Call `waiting.expire` at the first tick after `limit_ms`, unless `waiting` has been removed by then."""
        self._waiting.setdefault(limit_ms, {})[waiting] = self._clock.monotonic_ms() + limit_ms

    def remove(self, waiting: Expiring, limit_ms: int) -> None:
        same_limit = self._waiting.get(limit_ms)
        if same_limit is not None:
            same_limit.pop(waiting, None)

    def tick(self) -> None:
        now_ms = self._clock.monotonic_ms()
        over = []
        for limit_ms, waiting in [*self._waiting.items()]:
            for it, over_at in waiting.items():
                if over_at > now_ms:
                    break
                over.append(it)
            for it in over:
                waiting.pop(it, None)
            if not waiting:
                del self._waiting[limit_ms]
        for it in over:
            it.expire()
