"""Which arrivals the kept log holds, by the offsets of their records there, from the first that may still wait on.

Records are moved in the order of a log, so their arrivals ascend for long stretches, called runs here.  A search looks
into each run, the newest first, with a binary search.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence

from tidemill.timer.waiting_bits import CHUNK, CHUNK_BYTES


class ArrivalsByOffset:
    def __init__(self, end: int = 0, pairs: Iterable[tuple[int, int]] = ()) -> None:
        """The next offset of the log is `end`; `pairs` are offsets of records that may wait, and their arrivals."""
        self.end = end
        known = sorted(pairs)
        self._offsets = array("Q", [offset for offset, _ in known])
        self._arrivals = array("Q")
        self._runs: list[int] = []  # the positions at which runs begin
        self._first = 0  # the position of the first record that may wait
        self._bits: dict[int, bytearray] = {}  # chunks of bits of the arrivals that were added
        self._note([arrival for _, arrival in known])

    @property
    def start(self) -> int:
        """The offset of the first record that may wait, or `end`."""
        return self._offsets[self._first] if self._first < len(self._offsets) else self.end

    def __contains__(self, arrival: int) -> bool:
        """Return whether an arrival that waits was moved to the log."""
        bits = self._bits.get(arrival // CHUNK)
        return bits is not None and bool(bits[arrival % CHUNK >> 3] >> (arrival & 7) & 1)

    def add(self, arrivals: Sequence[int]) -> None:
        """Note the arrivals of the records that were appended to the log, in their order."""
        self._offsets.extend(range(self.end, self.end + len(arrivals)))
        self._note(arrivals)
        self.end += len(arrivals)

    def first_needed(self, waits: Callable[[int], bool]) -> int:
        """
        Return the offset of the first record that waits and is the newest copy of its arrival, or `end`: no byte of an
        earlier one is needed any more.
        """
        while self._first < len(self._offsets):
            arrival = self._arrivals[self._first]
            if waits(arrival) and self.offset_of(arrival) == self._offsets[self._first]:
                break
            self._first += 1
        if self._first > len(self._offsets) // 2:
            del self._offsets[: self._first], self._arrivals[: self._first]
            first_run = max(bisect_right(self._runs, self._first) - 1, 0)
            self._runs = [max(start - self._first, 0) for start in self._runs[first_run:]] if self._arrivals else []
            self._first = 0
        return self.start

    def forget_before(self, arrival: int) -> None:
        """Drop the bits of arrivals before one: none of them waits."""
        for chunk in [it for it in self._bits if (it + 1) * CHUNK <= arrival]:
            del self._bits[chunk]

    def offset_of(self, arrival: int) -> int | None:
        """Return the offset of the newest copy of an arrival; None if the log does not hold it."""
        end = len(self._arrivals)
        for start in reversed(self._runs):
            if end <= self._first:
                break
            at = bisect_left(self._arrivals, arrival, max(start, self._first), end)
            if at < end and self._arrivals[at] == arrival:
                return self._offsets[at]
            end = start
        return None

    def count_waiting(self, end: int, waits: Callable[[int], bool]) -> int:
        """Return how many records before an offset wait."""
        count = 0
        for at in range(self._first, len(self._offsets)):
            if self._offsets[at] >= end:
                break
            count += waits(self._arrivals[at])
        return count

    def bits(self, chunk: int) -> int:
        """Return the bits of the arrivals of a chunk that were moved, the first one as the lowest bit."""
        bits = self._bits.get(chunk)
        return 0 if bits is None else int.from_bytes(bits, "little")

    def _note(self, arrivals: Iterable[int]) -> None:
        known, runs = self._arrivals, self._runs
        last = known[-1] if known else None
        for arrival in arrivals:
            if last is None or arrival <= last:
                runs.append(len(known))
            known.append(arrival)
            last = arrival
            bits = self._bits.get(arrival // CHUNK)
            if bits is None:
                bits = self._bits[arrival // CHUNK] = bytearray(CHUNK_BYTES)
            bits[arrival % CHUNK >> 3] |= 1 << (arrival & 7)
