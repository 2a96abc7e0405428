"""Where the records lie in the batches of one log that are in memory.

The records of a batch are due at different times, so a batch is read again and again.  It is walked only once:
otherwise the release of one record would take as long as its whole batch.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from tidemill.storage.disk import Buffer
from tidemill.storage.partition.tail_cache import Tail
from tidemill.timer.arrival_records import starts_of


class WalkedBatches:
    """
    Positions of records in batches of the tail cache; 4 bytes for each record, as long as its batch is in the cache.
    """

    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        self._walked: dict[
            int, tuple[Buffer, array[int]]
        ] = {}  # by base offset: the batch, and the ends of its records

    def records(self, offsets: Sequence[int]) -> dict[int, memoryview]:
        """
        Return the records with these offsets, which ascend, each with its length, as far as their batches are in
        memory.
        """
        bases = list(self._tail)  # a copy: other threads read, too
        found: dict[int, memoryview] = {}
        for offset in offsets[bisect_left(offsets, bases[0]) :] if bases else ():
            at = bisect_right(bases, offset) - 1
            batch = self._tail.get(bases[at]) if at >= 0 else None
            if batch is None:
                continue
            starts = self._starts(bases[at], batch)
            index = offset - bases[at]
            if index < len(starts) - 1:
                found[offset] = memoryview(batch)[starts[index] : starts[index + 1]]
        return found

    def _starts(self, base: int, batch: Buffer) -> "array[int]":
        """Return where each record of a batch begins, and where the last one ends."""
        walked = self._walked.get(base)
        if walked is not None and walked[0] is batch:  # another batch has the same offsets after a truncation
            return walked[1]
        starts = starts_of(batch)
        self._walked[base] = batch, starts
        if len(self._walked) > 2 * len(self._tail):
            known = list(self._walked.items())  # a copy: other threads add to it
            self._walked = {base: it for base, it in known if self._tail.get(base) is it[0]}
        return starts
