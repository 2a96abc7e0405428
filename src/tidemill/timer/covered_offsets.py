"""Ranges of offsets: those whose rows the index by due time has."""

from bisect import bisect_left, bisect_right


class CoveredOffsets:
    def __init__(self) -> None:
        self._firsts: list[int] = []  # of the ranges, in order; they neither overlap nor touch
        self._ends: list[int] = []

    def add(self, first: int, end: int) -> None:
        if first >= end:
            return
        at, stop = bisect_left(self._ends, first), bisect_right(self._firsts, end)
        if at < stop:
            first, end = min(first, self._firsts[at]), max(end, self._ends[stop - 1])
        self._firsts[at:stop] = [first]
        self._ends[at:stop] = [end]

    def remove(self, first: int, end: int) -> None:
        if first >= end:
            return
        at, stop = bisect_right(self._ends, first), bisect_left(self._firsts, end)
        if at >= stop:
            return
        left = [(self._firsts[at], first)] if self._firsts[at] < first else []
        left += [(end, self._ends[stop - 1])] if self._ends[stop - 1] > end else []
        self._firsts[at:stop] = [first for first, _ in left]
        self._ends[at:stop] = [end for _, end in left]

    def gaps(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of a range that are not covered."""
        found = []
        for at in range(bisect_right(self._ends, first), len(self._firsts)):
            if self._firsts[at] >= end:
                break
            if first < self._firsts[at]:
                found.append((first, self._firsts[at]))
            first = self._ends[at]
        if first < end:
            found.append((first, end))
        return found
