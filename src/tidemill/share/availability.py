"""Which records of a share can be acquired now, and in which order.

A record is available if it is neither finished, dead, held nor pending, and its delay has ended.  With an order, an
available record also waits: for earlier records of its key, or for everything that is held or pending.
"""

import heapq
from collections.abc import Iterator

from tidemill.share.claim import Claim, Decided
from tidemill.share.interval_map import Interval, IntervalMap
from tidemill.share.look_ahead import HELD_BACK_MAX, LookAhead
from tidemill.share.opened_batches import OpenedBatches
from tidemill.share.record_status import RecordState, Run
from tidemill.share.share import Share
from tidemill.share.share_settings import Order, ShareSettings


class Availability:
    def __init__(self, share: Share, settings: ShareSettings, claims: IntervalMap[Claim | None]) -> None:
        """`claims` is what `Leases` knows beyond the share; it changes."""
        self.settings = settings
        self.look_ahead = _look_ahead(share, settings)
        self._share = share
        self._claims = claims
        self._scan_from = share.start  # no offset below this one is available before the first release time in `_due`
        self._free_from = share.start  # likewise, but for offsets that wait for no other record of their key
        self._is_draining = False  # whether nothing is available, because the order has changed, until nothing is held
        self._due = [(run.value.release_at, run.first) for run in share.runs if run.value.release_at]
        heapq.heapify(self._due)  # heap of (release time, first offset); some are outdated
        self._has_become_due = False  # whether a delay has ended since the last call of `takes_due`
        self._wall = 0  # the latest time seen: if the clock steps back, a record whose delay has ended stays available

    @property
    def is_tracking_full(self) -> bool:
        """Whether the share tracks so many runs and letters that no further ones may be added behind them."""
        return self.tracked_room <= 0

    @property
    def tracked_room(self) -> int:
        """How many further runs and letters the share may track; negative if it tracks more already."""
        return self.settings.tracked_max - self._share.tracked_count

    def configure(self, settings: ShareSettings) -> None:
        """
        Replace the settings.  If the order has changed, nothing is available until nothing is held: the records that
        are held may be out of the new order.
        """
        before, self.settings = self.settings, settings
        if (before.order, before.mode) != (settings.order, settings.mode):
            self._is_draining = True
        if (before.order, before.is_prioritized) != (settings.order, settings.is_prioritized):
            self.look_ahead = _look_ahead(self._share, settings)
            self.lower(self._share.start)

    def next(self, offset: int, end: int, wall: int) -> Interval[int] | None:
        """
        Return the first interval of records between `offset` and `end` that can be acquired now and have the same
        delivery count.  The interval's value is that count.

        While the share tracks as many runs and letters as it may, records behind the last run cannot be acquired.
        """
        end, wall = self._limited(end), self._at(wall)
        if self._waits_for_all():
            return None
        if self.settings.order is Order.PARTITION:
            return self._find_in_order(offset, end, wall)
        if self.look_ahead is not None:
            end = min(end, self.look_ahead.end)
        begin = max(self._free_from, self._share.start)
        found = self._find_free(max(offset, begin), end, wall)
        if offset <= begin < end:
            self._free_from = end if found is None else found.first
        return found

    def available(self, offset: int, end: int, wall: int) -> Iterator[Interval[int]]:
        """Yield what `next` returns for one offset after the other.  No claim may change during the iteration."""
        found = self.next(offset, end, wall)
        if found is None or self.look_ahead is not None or self.settings.order is Order.PARTITION:
            while found is not None:
                yield found
                found = self.next(found.end, end, wall)
            return
        yield from self._each(found.first, self._limited(end), self.latest(wall))

    def has_waiting(self, end: int) -> bool:
        """Return whether a record below `end` could be acquired now if it were not for the limits."""
        return self.find(max(self._scan_from, self._share.start), end, self._wall) is not None

    def preferred(self, wall: int) -> Iterator[Interval[int]]:
        """
        Yield the records in the look-ahead that can be acquired now, in the order in which they are to be acquired.
        No claim may change during the iteration.
        """
        assert self.look_ahead is not None, "the share has a look-ahead"
        for offset, end in self.look_ahead.preferred():
            while found := self.next(offset, end, wall):
                yield found
                offset = found.end

    def look_ahead_end(self, end: int, wall: int) -> int:
        """
        Return the offset up to which the look-ahead is to be extended; it is not above `end`, the high watermark.

        The look-ahead begins at the first available record, so records that are held or delayed do not use it up.
        """
        look_ahead = self.look_ahead
        assert look_ahead is not None, "the share has a look-ahead"
        if len(look_ahead) >= self.settings.look_ahead + HELD_BACK_MAX:
            return look_ahead.end
        wall = self._at(wall)  # first: it may lower `_scan_from`
        begin = max(self._scan_from, self._share.start)
        found = self.find(begin, end, wall)
        self._scan_from = max(begin, end) if found is None else found.first
        return look_ahead.end if found is None else min(found.first + self.settings.look_ahead, end)

    def opened(self, opened: OpenedBatches) -> None:
        """Extend the look-ahead by the batches that follow it."""
        if self.look_ahead is not None:
            self.look_ahead.add(opened, self._share.unfinished(self.look_ahead.end, opened.end))

    def unopened(self, end: int) -> int:
        """Return the first offset, not above `end`, whose record is not finished and that the look-ahead lacks."""
        assert self.look_ahead is not None, "the share has a look-ahead"
        begin = max(self.look_ahead.end, self._share.start)
        first = next((first for first, _ in self._share.unfinished(begin, end)), end)
        self.look_ahead.skip(first)
        return first

    def takes_due(self, wall: int) -> bool:
        """Return whether a delay has ended since the last call, by whichever method that was noticed."""
        self._at(wall)
        has_become_due, self._has_become_due = self._has_become_due, False
        return has_become_due

    # Methods for `Leases`, which changes the claims.

    def find(self, offset: int, end: int, wall: int) -> Interval[int] | None:
        """Find available records, also if they wait for others.  With a later time, find delayed records, too."""
        return next(self._each(offset, end, wall), None)

    def lower(self, offset: int) -> None:
        """Note that records from `offset` on may have become available."""
        self._scan_from, self._free_from = min(self._scan_from, offset), min(self._free_from, offset)

    def committed(self, run: Run) -> None:
        """Note that the share has applied a decision."""
        if run.value.state == RecordState.AVAILABLE:
            self.lower(run.first)
        elif self.look_ahead is not None:  # the next records of the keys are free
            self.look_ahead.finish(run.first, run.end)
            self._free_from = min(self._free_from, run.first)

    def start_moved(self) -> None:
        """Note that the share's start may have moved."""
        if self.look_ahead is not None and self.look_ahead.start < self._share.start:
            self.look_ahead.drop_below(self._share.start)
            self.lower(self._share.start)

    def note_due(self, first: int, release_at: int) -> None:
        """Note when a delayed record becomes available.  0: it is not delayed."""
        if release_at:
            heapq.heappush(self._due, (release_at, first))

    def latest(self, wall: int) -> int:
        """Return `wall`, or the latest time seen.  A clock that has been set back shortens no delay."""
        self._wall = max(self._wall, wall)
        return self._wall

    # Methods that the methods above share.

    def _each(self, offset: int, end: int, wall: int) -> Iterator[Interval[int]]:
        for first, claim_end, claim in self._claims.cover(offset, end):
            if claim is None:
                for run_first, run_end, status in self._share.runs.cover(first, claim_end):
                    if status.state == RecordState.AVAILABLE and status.release_at <= wall:
                        yield Interval(run_first, run_end, status.delivery_count)
            elif isinstance(claim, Decided) and claim.is_available and claim.status.release_at <= wall:
                yield Interval(first, claim_end, claim.status.delivery_count)

    def _limited(self, end: int) -> int:
        """Return `end`, or the end of the runs while nothing behind them can be acquired."""
        return min(end, max(self._share.runs.end, self._share.start)) if self.is_tracking_full else end

    def _at(self, wall: int) -> int:
        """Return `wall`, or the latest time seen, and note which delays have ended by then."""
        wall = self.latest(wall)
        while self._due and self._due[0][0] <= wall:
            self.lower(heapq.heappop(self._due)[1])
            self._has_become_due = True
        return wall

    def _waits_for_all(self) -> bool:
        """Return whether nothing can be acquired while any record is held or pending."""
        if not (self._is_draining or self.settings.order is Order.PARTITION):
            return False
        is_waiting = any(not (isinstance(it.value, Decided) and it.value.is_available) for it in self._claims)
        self._is_draining = self._is_draining and is_waiting
        return is_waiting

    def _find_in_order(self, offset: int, end: int, wall: int) -> Interval[int] | None:
        """Find available records before which every record is available or finished."""
        place = self._share.start
        while found := self.find(place, end, wall):
            if any(self._share.unfinished(place, found.first)):
                return None
            if found.end > offset:
                return found._replace(first=max(found.first, offset))
            place = found.end
        return None

    def _find_free(self, offset: int, end: int, wall: int) -> Interval[int] | None:
        """Find available records that wait for no other record of their key."""
        while found := self.find(offset, end, wall):
            if self.look_ahead is None:
                return found
            free = self.look_ahead.next_free(found.first, found.end)
            if free is not None:
                return Interval(*free, found.value)
            offset = found.end
        return None


def _look_ahead(share: Share, settings: ShareSettings) -> LookAhead | None:
    if not settings.has_look_ahead:
        return None
    return LookAhead(share.start, is_ordered=settings.order is Order.KEY, is_prioritized=settings.is_prioritized)
