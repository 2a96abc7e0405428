"""A histogram of durations: the number of durations in each bucket, and the sum of all durations."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

LATENCY_BOUNDS_MS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)
LATENESS_BOUNDS_MS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)
SYNC_BOUNDS_US: Final = (100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000)


class Histogram:
    __slots__ = ("bounds", "counts", "per_second", "sum")

    def __init__(self, bounds: tuple[int, ...], *, per_second: int) -> None:
        """
        Create a histogram with ascending, inclusive upper `bounds`, in units of 1 / `per_second` seconds.
        """
        self.bounds = bounds
        self.per_second = per_second
        self.counts = [0] * (len(bounds) + 1)  # one for each bucket; the last is for durations above all bounds
        self.sum = 0

    def observe(self, duration: int) -> None:
        """Count a duration, given in the unit of the bounds."""
        self.counts[bisect_left(self.bounds, duration)] += 1
        self.sum += duration

    def observe_all(self, durations: Sequence[int]) -> None:
        """Count durations that ascend, given in the unit of the bounds."""
        begin = 0
        for at, bound in enumerate((*self.bounds, durations[-1] if durations else 0)):
            end = bisect_right(durations, bound, begin)
            self.counts[at] += end - begin
            begin = end
        self.sum += sum(durations)
