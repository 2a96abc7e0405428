"""A map from ranges of offsets to values, for long ranges with equal values."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

V = TypeVar("V")


class Interval(NamedTuple, Generic[V]):
    """The offsets from `first` up to, but not including, `end`."""

    first: int
    end: int
    value: V


class IntervalMap(Generic[V]):
    """
    Intervals in their normal form: ascending, disjoint, and as long as possible.

    An offset without an interval has the value `default`, which no interval has.  So two maps that give the same
    value to every offset are equal.
    """

    __slots__ = ("_intervals", "default")

    def __init__(self, default: V, intervals: Iterable[Interval[V]] = ()) -> None:
        """Take intervals that are in the normal form."""
        self.default = default
        self._intervals = list(intervals)

    def __len__(self) -> int:
        return len(self._intervals)

    def __iter__(self) -> Iterator[Interval[V]]:
        return iter(self._intervals)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntervalMap):
            return NotImplemented
        return (self.default, self._intervals) == (other.default, other._intervals)

    def __repr__(self) -> str:
        return f"IntervalMap({self.default!r}, {self._intervals})"

    def at(self, offset: int, end: int) -> Interval[V]:
        """
        Return the offsets from `offset` on, and below `end`, that have the same value, and the value.
        """
        place = self._first_ending_after(offset)
        if place == len(self._intervals):
            return Interval(offset, end, self.default)
        found = self._intervals[place]
        if found.first > offset:
            return Interval(offset, min(end, found.first), self.default)
        return Interval(offset, min(end, found.end), found.value)

    def get(self, offset: int) -> V:
        return self.at(offset, offset + 1).value

    def within(self, first: int, end: int) -> Iterator[Interval[V]]:
        """Yield the intervals between `first` and `end`, cut to these bounds.  The map must not change meanwhile."""
        for place in range(self._first_ending_after(first), len(self._intervals)):
            found = self._intervals[place]
            if found.first >= end:
                return
            yield Interval(max(first, found.first), min(end, found.end), found.value)

    def assign(self, first: int, end: int, value: V) -> None:
        """Give the offsets from `first` up to `end`, at least one, this value."""
        intervals = self._intervals
        low = self._first_ending_after(first)
        high = bisect_left(intervals, (end,), low)  # the first interval that begins at `end` or later
        pieces = [Interval(first, end, value)]
        if low < high and intervals[low].first < first:
            pieces.insert(0, intervals[low]._replace(end=first))
        elif low and intervals[low - 1].end == first:
            low -= 1
            pieces.insert(0, intervals[low])
        if low < high and intervals[high - 1].end > end:
            pieces.append(intervals[high - 1]._replace(first=end))
        elif high < len(intervals) and intervals[high].first == end:
            pieces.append(intervals[high])
            high += 1
        intervals[low:high] = self._merged(pieces)

    def drop_below(self, offset: int) -> None:
        """Give all offsets below `offset` the default value."""
        place = self._first_ending_after(offset)
        del self._intervals[:place]
        if self._intervals and self._intervals[0].first < offset:
            self._intervals[0] = self._intervals[0]._replace(first=offset)

    def _first_ending_after(self, offset: int) -> int:
        """Return the place of the first interval that has an offset at or after `offset`."""
        place = bisect_left(self._intervals, (offset,))
        if place and self._intervals[place - 1].end > offset:
            place -= 1
        return place

    def _merged(self, pieces: list[Interval[V]]) -> list[Interval[V]]:
        """Join consecutive pieces with equal values, and leave out the default value."""
        merged: list[Interval[V]] = []
        for piece in pieces:
            if piece.value == self.default:
                continue
            if merged and merged[-1].end == piece.first and merged[-1].value == piece.value:
                merged[-1] = merged[-1]._replace(end=piece.end)
            else:
                merged.append(piece)
        return merged
