"""The records that the leader of a share knows by key and priority, ahead of the first available one.

A share with an order by key, or with priorities, delivers only records in its look-ahead: their batches have been
opened.  Nothing in it is durable; the next leader opens the batches again.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from tidemill.share.interval_map import IntervalMap
from tidemill.share.key_order import KeyOrder
from tidemill.share.opened_batches import PRIORITY_DEFAULT, PRIORITY_MAX, OpenedBatches

BY_OFFSET_EVERY: Final = 10
"""Every tenth acquisition is in the order of offsets, so that records with a low priority are delivered, too."""

HELD_BACK_MAX: Final = 100_000
"""The number of records that are known in addition to `ShareSettings.look_ahead`: records held, and with a delay."""


class LookAhead:
    def __init__(self, start: int, *, is_ordered: bool, is_prioritized: bool) -> None:
        self.is_ordered = is_ordered
        self.is_prioritized = is_prioritized
        self.start = start
        self.end = start  # the offsets from `start` up to this one are known
        self._order = KeyOrder()
        levels = range(PRIORITY_MAX, -1, -1) if is_prioritized else ()
        self._levels = {priority: IntervalMap(False) for priority in levels}  # known offsets by priority
        self._acquisitions = 0

    def __len__(self) -> int:
        """The number of records in memory because of their keys."""
        return len(self._order)

    def add(self, opened: OpenedBatches, unfinished: Iterable[tuple[int, int]]) -> None:
        """
        Add the records that follow `end`.  `unfinished` are the ascending intervals (first, end) of the offsets that
        are not finished.
        """
        intervals = iter(unfinished)
        first, end = next(intervals, (opened.end, opened.end))
        rest = self.end  # the offsets from here on have the default priority
        for record in opened.records:
            while end <= record.offset and first < opened.end:
                first, end = next(intervals, (opened.end, opened.end))
            if record.offset < max(first, self.end):
                continue
            if self.is_ordered and record.key is not None:
                self._order.add(record.offset, record.key)
            if self.is_prioritized and record.priority != PRIORITY_DEFAULT:
                self._levels[record.priority].assign(record.offset, record.offset + 1, True)
                self._add_default(rest, record.offset)
                rest = record.offset + 1
        self._add_default(rest, opened.end)
        self.end = max(self.end, opened.end)

    def skip(self, end: int) -> None:
        """Note that all offsets from the end of the look-ahead up to `end` are finished."""
        self.end = max(self.end, end)

    def finish(self, first: int, end: int) -> None:
        """Remove finished records: the next records of their keys wait no more."""
        self._order.finish(first, end)
        for level in self._levels.values():
            if level:
                level.assign(first, end, False)

    def drop_below(self, start: int) -> None:
        """Remove the records below the share's new start."""
        if start > self.start:
            self.finish(self.start, start)
            self.start = start
            self.skip(start)

    def next_free(self, first: int, end: int) -> tuple[int, int] | None:
        """
        Return the first interval (first, end) of known records between two offsets that wait for no record of their
        key; None if there is none.
        """
        return self._order.next_free(first, min(end, self.end))

    def preferred(self) -> Iterator[tuple[int, int]]:
        """Yield the known intervals (first, end) in the order in which their records are to be acquired."""
        if not self.is_prioritized or self._acquisitions % BY_OFFSET_EVERY == BY_OFFSET_EVERY - 1:
            yield self.start, self.end
            return
        for level in self._levels.values():
            for one in level:
                yield one.first, one.end

    def acquired(self) -> None:
        """Count an acquisition."""
        self._acquisitions += 1

    def _add_default(self, first: int, end: int) -> None:
        if self.is_prioritized and first < end:
            self._levels[PRIORITY_DEFAULT].assign(first, end, True)
