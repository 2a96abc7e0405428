"""Runs of consecutive offsets that are in the same state, for one share group on one partition."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple


class RecordState(IntEnum):
    """The durable state of a record.  Being acquired is not durable: the leader alone knows who holds a record."""

    AVAILABLE = 0
    ACKNOWLEDGED = 2
    ARCHIVING = 3  # dead, and its dead letter is not written yet
    ARCHIVED = 4


class Reason(IntEnum):
    """Why a record is archived or being archived."""

    NONE = 0
    REJECTED = 1
    DELIVERY_LIMIT = 2
    EXPIRED = 3


class Run(NamedTuple):
    """The offsets from `first` up to, but not including, `end`."""

    first: int
    end: int
    state: RecordState
    reason: Reason = Reason.NONE
    delivery_count: int = 0
    release_at: int = 0  # an available record is not delivered before this time, in ms since the epoch

    @property
    def is_terminal(self) -> bool:
        """Whether nothing will happen to these records any more."""
        return self.state in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)

    @property
    def is_default(self) -> bool:
        """Whether the run says no more than that its records are available, which holds without a run, too."""
        return self[2:] == _DEFAULT


_DEFAULT = (RecordState.AVAILABLE, Reason.NONE, 0, 0)


class RunTable:
    """
    The runs in their normal form: ascending, disjoint, as long as possible, and without default runs.

    An offset without a run is available and was never delivered.  Two tables that describe the same states are equal.
    """

    __slots__ = ("_runs",)

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        """Take runs that are in the normal form."""
        self._runs = list(runs)

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunTable) and self._runs == other._runs

    def __repr__(self) -> str:
        return f"RunTable({self._runs})"

    def at(self, offset: int) -> Run:
        """Return the run that contains `offset`; without one, the default run up to the next one, if there is one."""
        place = self._first_ending_after(offset)
        if place < len(self._runs) and self._runs[place].first <= offset:
            return self._runs[place]
        end = self._runs[place].first if place < len(self._runs) else offset + 1
        return Run(offset, end, *_DEFAULT)

    def within(self, first: int, end: int) -> list[Run]:
        """Return the runs that have offsets from `first` up to `end`, not cut to these bounds."""
        low = self._first_ending_after(first)
        return self._runs[low : bisect_left(self._runs, (end,), low)]

    def assign(self, run: Run) -> None:
        """Give the offsets of `run` its state, whatever their state was."""
        runs, first, end, state = self._runs, run.first, run.end, run[2:]
        low = self._first_ending_after(first)
        high = bisect_left(runs, (end,), low)  # the first run that begins at `end` or later
        pieces = [run]
        if low < high and (left := runs[low]).first < first:
            pieces.insert(0, left._replace(end=first))
        elif low and runs[low - 1].end == first:
            low -= 1
            pieces.insert(0, runs[low])
        if low < high and (right := runs[high - 1]).end > end:
            pieces.append(right._replace(first=end))
        elif high < len(runs) and runs[high].first == end:
            pieces.append(runs[high])
            high += 1
        runs[low:high] = pieces if len(pieces) == 1 and state != _DEFAULT else _merged(pieces)

    def drop_below(self, offset: int) -> None:
        """Remove the states of all offsets below `offset`."""
        place = self._first_ending_after(offset)
        del self._runs[:place]
        if self._runs and self._runs[0].first < offset:
            self._runs[0] = self._runs[0]._replace(first=offset)

    def drop_finished(self, start: int) -> int:
        """Remove the terminal runs that begin at `start` without a gap, and return the offset after them."""
        count = 0
        for run in self._runs:
            if run.first != start or not run.is_terminal:
                break
            start = run.end
            count += 1
        del self._runs[:count]
        return start

    def _first_ending_after(self, offset: int) -> int:
        """Return the place of the first run that has an offset at or after `offset`."""
        place = bisect_left(self._runs, (offset,))
        if place and self._runs[place - 1].end > offset:
            place -= 1
        return place


def _merged(pieces: list[Run]) -> list[Run]:
    """Join consecutive pieces that are equal but for their bounds, and leave out default runs."""
    merged: list[Run] = []
    for piece in pieces:
        if piece.is_default:
            continue
        if merged and merged[-1].end == piece.first and merged[-1][2:] == piece[2:]:
            merged[-1] = merged[-1]._replace(end=piece.end)
        else:
            merged.append(piece)
    return merged
