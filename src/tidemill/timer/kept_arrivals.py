"""Which arrivals the kept log holds, in the order of its offsets, from the first that may still wait on."""

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence


class ArrivalsByOffset:
    def __init__(self, start: int = 0) -> None:
        """The log is empty, and its next offset is `start`."""
        self.end = start
        self._runs: deque[tuple[int, array[int]]] = deque()  # offset of the first, and the arrivals

    @property
    def start(self) -> int:
        """The offset of the first record that may still wait, or `end`."""
        return self._runs[0][0] if self._runs else self.end

    def add(self, arrivals: Sequence[int]) -> None:
        """Note the arrivals of the records that were appended to the log, in their order."""
        self._runs.append((self.end, array("Q", arrivals)))
        self.end += len(arrivals)

    def first_waiting(self, waits: Callable[[int], bool]) -> int:
        """Return the offset of the first record that waits, or `end`: no byte of an earlier one is needed any more."""
        while self._runs:
            start, arrivals = self._runs[0]
            for at, arrival in enumerate(arrivals):
                if waits(arrival):
                    if at:
                        self._runs[0] = start + at, arrivals[at:]
                    return start + at
            self._runs.popleft()
        return self.end

    def offset_of(self, arrival: int) -> int | None:
        """Return the offset of the newest copy of an arrival; None if the log does not hold it."""
        for start, arrivals in reversed(self._runs):
            if arrival in arrivals:
                return start + len(arrivals) - 1 - arrivals[::-1].index(arrival)
        return None

    def arrival_at(self, offset: int) -> int | None:
        """Return the arrival at an offset; None if it is not known to wait any more."""
        at = bisect_right(self._runs, offset, key=lambda run: run[0]) - 1
        if at < 0:
            return None
        start, arrivals = self._runs[at]
        return arrivals[offset - start] if offset - start < len(arrivals) else None
