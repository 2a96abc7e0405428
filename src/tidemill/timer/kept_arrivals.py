"""Which arrivals the kept log holds, by the offsets of their records there, from the first that may still wait on."""

from array import array
from collections.abc import Callable, Iterable, Sequence


class ArrivalsByOffset:
    def __init__(self, end: int = 0, pairs: Iterable[tuple[int, int]] = ()) -> None:
        """The next offset of the log is `end`; `pairs` are offsets of records that may wait, and their arrivals."""
        self.end = end
        known = sorted(pairs)
        self._offsets = array("Q", [offset for offset, _ in known])
        self._arrivals = array("Q", [arrival for _, arrival in known])
        self._first = 0  # the position of the first record that may wait

    @property
    def start(self) -> int:
        """The offset of the first record that may wait, or `end`."""
        return self._offsets[self._first] if self._first < len(self._offsets) else self.end

    def add(self, arrivals: Sequence[int]) -> None:
        """Note the arrivals of the records that were appended to the log, in their order."""
        self._offsets.extend(range(self.end, self.end + len(arrivals)))
        self._arrivals.extend(arrivals)
        self.end += len(arrivals)

    def first_waiting(self, waits: Callable[[int], bool]) -> int:
        """Return the offset of the first record that waits, or `end`: no byte of an earlier one is needed any more."""
        while self._first < len(self._arrivals) and not waits(self._arrivals[self._first]):
            self._first += 1
        if self._first > len(self._arrivals) // 2:
            del self._offsets[: self._first], self._arrivals[: self._first]
            self._first = 0
        return self.start

    def offset_of(self, arrival: int) -> int | None:
        """Return the offset of the newest copy of an arrival; None if the log does not hold it."""
        arrivals = self._arrivals
        at = len(arrivals) - 1
        while at >= self._first and arrivals[at] != arrival:
            at -= 1
        return self._offsets[at] if at >= self._first else None
