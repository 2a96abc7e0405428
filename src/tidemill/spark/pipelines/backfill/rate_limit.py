"""Limits the rate at which one task writes."""

from typing import Final

_BURST_S: Final = 1.0  # After a stall, at most this much of the lost time is made up.


class RateLimit:
    """
    A token bucket that is empty at the start.

    The total amount sent since the start never exceeds `per_second` times the elapsed time.
    """

    def __init__(self, per_second: float, now: float) -> None:
        """`per_second` is in records or bytes, and above 0; `now` is in seconds on the caller's clock."""
        self._per_second = per_second
        self._tokens = 0.0
        self._filled_at = now

    def wait_s(self, amount: int, now: float) -> float:
        """
        Take `amount` from the bucket, and return how many seconds to wait before it is sent.

        The bucket may be in debt, so an amount of any size is only delayed.
        """
        tokens = self._tokens + (now - self._filled_at) * self._per_second
        self._tokens = min(tokens, _BURST_S * self._per_second) - amount
        self._filled_at = now
        return max(-self._tokens / self._per_second, 0.0)
