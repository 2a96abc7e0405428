"""RateAverage: the rate at which a counter grows, as a moving average that forgets older samples exponentially."""

from math import exp, floor
from typing import Final

SECOND_US: Final = 1_000_000


class RateAverage:
    """
    The average is a whole number, rounded down, so that it reaches zero when the counter rests, and sums of averages
    are exact.
    """

    __slots__ = ("_counted", "_counted_at_us", "is_known", "per_second")

    def __init__(self, count: int, now_us: int) -> None:
        self._counted = count
        self._counted_at_us = now_us
        self.per_second = 0
        self.is_known = False  # whether there was a sample; the first one is the average

    def sample(self, count: int, now_us: int, window_us: int) -> None:
        """Add the time since the last sample.  What happened `window_us` ago has 1/e of the weight of now."""
        elapsed_us = now_us - self._counted_at_us
        if elapsed_us <= 0:
            return
        rate = (count - self._counted) * SECOND_US // elapsed_us
        share = 1 - exp(-elapsed_us / window_us) if self.is_known else 1
        self.per_second += floor((rate - self.per_second) * share)
        self.is_known = True
        self._counted, self._counted_at_us = count, now_us
