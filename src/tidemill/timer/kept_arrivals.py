"""Which arrivals the kept log holds, by the offsets of their records there, from the first that may still wait on."""

from array import array
from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Final

_ARRIVAL: Final = Struct(">Q")
_CHUNK: Final = 1 << 16  # arrivals in a chunk of the bits


class ArrivalsByOffset:
    def __init__(self, end: int = 0, pairs: Iterable[tuple[int, int]] = ()) -> None:
        """The next offset of the log is `end`; `pairs` are offsets of records that may wait, and their arrivals."""
        self.end = end
        known = sorted(pairs)
        self._offsets = array("Q", [offset for offset, _ in known])
        self._arrivals = bytearray().join(_ARRIVAL.pack(arrival) for _, arrival in known)
        self._first = 0  # the position of the first record that may wait
        self._bits: dict[int, bytearray] = {}  # chunks of bits of the arrivals that were added
        for _, arrival in known:
            self._set(arrival)

    @property
    def start(self) -> int:
        """The offset of the first record that may wait, or `end`."""
        return self._offsets[self._first] if self._first < len(self._offsets) else self.end

    def __contains__(self, arrival: int) -> bool:
        """Return whether an arrival that waits was moved to the log."""
        bits = self._bits.get(arrival // _CHUNK)
        return bits is not None and bool(bits[arrival % _CHUNK >> 3] >> (arrival & 7) & 1)

    def add(self, arrivals: Sequence[int]) -> None:
        """Note the arrivals of the records that were appended to the log, in their order."""
        self._offsets.extend(range(self.end, self.end + len(arrivals)))
        for arrival in arrivals:
            self._arrivals += _ARRIVAL.pack(arrival)
            self._set(arrival)
        self.end += len(arrivals)

    def first_needed(self, waits: Callable[[int], bool]) -> int:
        """
        Return the offset of the first record that waits and is the newest copy of its arrival, or `end`: no byte of an
        earlier one is needed any more.
        """
        while self._first < len(self._offsets):
            (arrival,) = _ARRIVAL.unpack_from(self._arrivals, self._first * 8)
            if waits(arrival) and self.offset_of(arrival) == self._offsets[self._first]:
                break
            self._first += 1
        if self._first > len(self._offsets) // 2:
            del self._offsets[: self._first], self._arrivals[: self._first * 8]
            self._first = 0
        return self.start

    def forget_before(self, arrival: int) -> None:
        """Drop the bits of arrivals before one: none of them waits."""
        for chunk in [it for it in self._bits if (it + 1) * _CHUNK <= arrival]:
            del self._bits[chunk]

    def offset_of(self, arrival: int) -> int | None:
        """Return the offset of the newest copy of an arrival; None if the log does not hold it."""
        wanted, at = _ARRIVAL.pack(arrival), len(self._arrivals)
        while (at := self._arrivals.rfind(wanted, self._first * 8, at)) >= 0:
            if not at % 8:
                return self._offsets[at // 8]
            at += 7  # a match that is no whole entry; an earlier one ends at most here
        return None

    def count_waiting(self, end: int, waits: Callable[[int], bool]) -> int:
        """Return how many records before an offset wait."""
        count = 0
        for at in range(self._first, len(self._offsets)):
            if self._offsets[at] >= end:
                break
            count += waits(_ARRIVAL.unpack_from(self._arrivals, at * 8)[0])
        return count

    def _set(self, arrival: int) -> None:
        bits = self._bits.get(arrival // _CHUNK)
        if bits is None:
            bits = self._bits[arrival // _CHUNK] = bytearray(_CHUNK // 8)
        bits[arrival % _CHUNK >> 3] |= 1 << (arrival & 7)
