"""Requests that wait for other brokers, but not longer than their clients do.

Requests with the same time limit come to it in the order in which they came, so that each tick looks at those only
whose time is over.  Nothing is as exact as a timer, and nothing is made for a request that is answered in time.
"""

from typing import Protocol

from tidemill.model.clock import Clock


class Expiring(Protocol):
    def expire(self) -> None:
        """Its time is over: answer with what is known."""
        ...


class Deadlines:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[int, dict[Expiring, int]] = {}  # by time limit: when each is over

    def add(self, waiting: Expiring, limit_ms: int) -> None:
        """`expire` is called by the first tick after `limit_ms`, unless it was removed."""
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
