"""A map from ranges of offsets to values, for long ranges of offsets with the same value."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

V = TypeVar("V")
W = TypeVar("W")


class Interval(NamedTuple, Generic[V]):
    """The offsets from `first` up to, but not including, `end`."""

    first: int
    end: int
    value: V


class IntervalMap(Generic[V]):
    """
    Intervals in normal form: ascending, disjoint, and as long as possible.

    An offset outside all intervals has the value `default`, which no interval has.  So two maps are equal if they map
    every offset to the same value.
    """

    __slots__ = ("_intervals", "default")

    def __init__(self, default: V, intervals: Iterable[Interval[V]] = ()) -> None:
        """`intervals` must be in normal form."""
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
        Return the longest interval that starts at `offset`, ends at or before `end`, and has one value.
        """
        place = self._first_ending_after(offset)
        if place == len(self._intervals):
            return Interval(offset, end, self.default)
        found = self._intervals[place]
        if found.first > offset:
            return Interval(offset, min(end, found.first), self.default)
        return Interval(offset, min(end, found.end), found.value)

    @property
    def end(self) -> int:
        """The end of the last interval; 0 without intervals."""
        return self._intervals[-1].end if self._intervals else 0

    def get(self, offset: int) -> V:
        return self.at(offset, offset + 1).value

    def within(self, first: int, end: int) -> Iterator[Interval[V]]:
        """
        Yield the intervals between `first` and `end`, clipped to these bounds.  The map must not change during the
        iteration.
        """
        for place in range(self._first_ending_after(first), len(self._intervals)):
            found = self._intervals[place]
            if found.first >= end:
                return
            yield Interval(max(first, found.first), min(end, found.end), found.value)

    def cover(self, first: int, end: int) -> Iterator[tuple[int, int, V]]:
        """
        Yield intervals (first, end, value) that together are all offsets from `first` up to `end`, also those with the
        default.  The map must not change during the iteration.
        """
        return ((part_first, part_end, value) for part_first, part_end, value, _ in self.meet([(first, end, None)]))

    def meet(self, others: Iterable[tuple[int, int, W]]) -> Iterator[tuple[int, int, V, W]]:
        """
        Yield the parts (first, end, value, the other's value) in which intervals of another map have one value here.
        This is quick if the others ascend.  The map must not change during the iteration.
        """
        intervals, place, before = self._intervals, 0, 0
        count = len(intervals)
        for first, end, other in others:
            if first != before:
                place = self._first_ending_after(first)
            while first < end:
                if place == count or intervals[place].first >= end:
                    yield first, end, self.default, other
                    break
                found_first, found_end, value = intervals[place]
                if found_first > first:
                    yield first, found_first, self.default, other
                    first = found_first
                if found_end > end:
                    yield first, end, value, other
                    break
                yield first, found_end, value, other
                first = found_end
                place += 1
            before = end

    def assign(self, first: int, end: int, value: V) -> None:
        """Set the value of the offsets from `first` up to, but not including, `end`.  The range must not be empty."""
        self._splice(first, end, [Interval(first, end, value)])

    def assign_all(self, assigned: Iterable[Interval[V]]) -> None:
        """Set the values of intervals, one after the other.  This is quick if they ascend and are near each other."""
        pieces: list[Interval[V]] = []
        for one in assigned:
            if pieces and one.first < pieces[-1].end:
                self._assign_ascending(pieces)
                pieces = []
            pieces.append(one)
        if pieces:
            self._assign_ascending(pieces)

    def _assign_ascending(self, pieces: list[Interval[V]]) -> None:
        gaps = [(one.end, next_one.first, None) for one, next_one in pairwise(pieces) if one.end < next_one.first]
        first, end = pieces[0].first, pieces[-1].end
        if gaps:
            pieces += [Interval(*part[:3]) for part in self.meet(gaps)]
            pieces.sort(key=itemgetter(0))
        self._splice(first, end, pieces)

    def _splice(self, first: int, end: int, pieces: list[Interval[V]]) -> None:
        """Replace what is between `first` and `end` by `pieces`, which have all of these offsets."""
        intervals = self._intervals
        low = self._first_ending_after(first)
        high = bisect_left(intervals, (end,), low)  # the first interval that begins at `end` or later
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
        """Reset all offsets below `offset` to the default value."""
        place = self._first_ending_after(offset)
        del self._intervals[:place]
        if self._intervals and self._intervals[0].first < offset:
            self._intervals[0] = self._intervals[0]._replace(first=offset)

    def _first_ending_after(self, offset: int) -> int:
        """Return the position in the list of the first interval that contains an offset at or after `offset`."""
        place = bisect_left(self._intervals, (offset,))
        if place and self._intervals[place - 1].end > offset:
            place -= 1
        return place

    def _merged(self, pieces: list[Interval[V]]) -> list[Interval[V]]:
        """Merge adjacent pieces with equal values, and omit pieces with the default value."""
        merged: list[Interval[V]] = []
        for piece in pieces:
            if piece.value == self.default:
                continue
            if merged and merged[-1].end == piece.first and merged[-1].value == piece.value:
                merged[-1] = merged[-1]._replace(end=piece.end)
            else:
                merged.append(piece)
        return merged


def joined(intervals: Iterable[Interval[V]]) -> Iterator[Interval[V]]:
    """Join adjacent intervals with equal values.  The intervals ascend."""
    last: Interval[V] | None = None
    for one in intervals:
        if last is not None and (last.end, last.value) == (one.first, one.value):
            last = last._replace(end=one.end)
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last
