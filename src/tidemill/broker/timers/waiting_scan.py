"""Reads all records that wait of a timer partition, for lists and for selections that name no record.

The scan runs on another thread, with a copy of the bits: what it finds waited when it began.  Segments may be removed
meanwhile, because nothing waits in them any more, or what does was moved to the kept log.

A schedule whose newest release is in the log, and its next occurrence not yet, is found with the occurrence that the
leader is about to log (`Recurrences`): the scan computes the same.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from heapq import heappop, heappush, merge
from itertools import islice, takewhile
from operator import attrgetter
from typing import Final, NamedTuple

from tidemill.batches.batch import read_header
from tidemill.batches.records import HEADER_MEMORY, RECORD_MEMORY, Record
from tidemill.broker.timers.positioned_batches import positioned_batches
from tidemill.broker.timers.waiting_reader import WaitingLogs
from tidemill.peer.timer_resolve import UNBOUNDED, Selection
from tidemill.timer.arrival_records import arrival_of_kept, records_of
from tidemill.timer.due_time import DELIVER_AT
from tidemill.timer.schedule import BadSchedule, parse_schedule
from tidemill.timer.timer_headers import SCHEDULE, TIMER_ID
from tidemill.timer.waiting_bits import WaitingBits
from tidemill.timer.waiting_set import NOT_YET_KNOWN, Recurrence, WaitingView

LIST_BYTES_MAX: Final = 4 << 20  # of the records of one list, which are in memory together; fewer if it is short
NOTHING_SELECTED: Final = Selection()
_arrival = attrgetter("arrival")


class WaitingRecord(NamedTuple):
    due_ms: int
    arrival: int
    size_bytes: int
    timer_id: bytes | None
    record: Record  # with the producer's timestamp; without its value, unless the scan has values
    has_time: bool = True  # False: its time zone is not known here, and `due_ms` is when it was released before

    @property
    def held_bytes(self) -> int:
        """About how many bytes the record takes."""
        key, value, headers = self.record.key, self.record.value, self.record.headers
        size = RECORD_MEMORY + len(key or b"") + len(value or b"")
        return size + sum(HEADER_MEMORY + len(name) + len(it or b"") for name, it in headers)


class NamedArrival(NamedTuple):
    arrival: int
    kept: int | None  # its offset in the kept log, if it was moved there


class WaitingScan(NamedTuple):
    """What to read of a partition, as of the turn in which it was made."""

    logs: WaitingLogs
    view: WaitingView
    arrivals_start: int
    kept_start: int
    kept_end: int
    only: Sequence[NamedArrival] | None = None  # where these records are, and no others are read
    has_values: bool = False

    def records(self, selection: Selection, timer_ids: Collection[bytes] = ()) -> Iterator[WaitingRecord]:
        """
        Yield the records of a selection, each once, in no order.  Waits for the disk.  Raise OSError or LookupError.
        """
        return filter(partial(_is_selected, selection, timer_ids), self._every())

    def first_arrived(
        self, selection: Selection, timer_ids: Collection[bytes], after_arrival: int, count: int, bytes_max: int
    ) -> tuple[list[WaitingRecord], bool]:
        """
        Return the records of a selection that arrived first after `after_arrival`, up to so many and to `bytes_max`,
        and whether there are more.  Waits for the disk.  Raise OSError or LookupError.
        """
        scan = self
        while True:
            try:
                return scan._first_arrived(selection, timer_ids, after_arrival, count, bytes_max)
            except (OSError, LookupError):
                again = scan._renewed()
                if again is None:
                    raise
                scan = again

    def _first_arrived(
        self, selection: Selection, timer_ids: Collection[bytes], after_arrival: int, count: int, bytes_max: int
    ) -> tuple[list[WaitingRecord], bool]:
        is_selected = partial(_is_selected, selection, timer_ids)
        left = deepcopy(self.view.bits)
        of_kept = (it for it in self._kept(left) if it.arrival > after_arrival and is_selected(it))
        kept, is_cut = _first(of_kept, count, bytes_max, lambda it: (it.arrival, 0))
        if is_cut and not kept:
            return [], True
        arrived: Iterator[WaitingRecord] = filter(is_selected, self._arrived(left, after_arrival))
        if is_cut:  # those behind must not come before the kept ones that were left out
            arrived = takewhile(lambda it: it.arrival < kept[-1].arrival, arrived)
        found: list[WaitingRecord] = []
        size = 0
        for it in merge(kept, arrived, key=_arrival):
            size += it.held_bytes
            if len(found) >= count or (found and size > bytes_max):
                return found, True
            found.append(it)
        return found, is_cut

    def _every(self) -> Iterator[WaitingRecord]:
        """
        Yield each record once.  When a segment is removed meanwhile, its records that wait are in the kept log, behind
        what was read of it: the logs are read again as they are then, without the records that were yielded already.
        """
        scan, left = self, deepcopy(self.view.bits)
        while True:
            try:
                if scan.only is None:
                    yield from scan._kept(left)
                    yield from scan._arrived(left, UNBOUNDED)
                else:
                    yield from scan._placed(left)
                return
            except (OSError, LookupError):
                again = scan._renewed()
                if again is None:
                    raise
                scan = again._replace(only=None)  # where named records were moved is not known here

    def _renewed(self) -> "WaitingScan | None":
        """
        Return a scan of the logs as they are now; None if none of their segments has been removed.

        The end of the kept log is read last: a record was moved before its segment was removed.
        """
        arrivals, kept = self.logs.arrivals, self.logs.kept
        if arrivals.first_base <= self.arrivals_start and kept.first_base <= self.kept_start:
            return None
        starts = arrivals.log_start, kept.log_start
        return self._replace(arrivals_start=starts[0], kept_start=starts[1], kept_end=kept.end_offset)

    # Parts of a scan: each removes what it yields from the bits `left`, and yields nothing else that waits.

    def _placed(self, left: WaitingBits) -> Iterator[WaitingRecord]:
        only, logs = self.only or (), self.logs
        in_arrivals = {it.arrival: it.arrival for it in only if it.kept is None}
        in_kept = {it.kept: it.arrival for it in only if it.kept is not None}
        for log, arrivals, end in ((logs.arrivals, in_arrivals, self.view.end), (logs.kept, in_kept, self.kept_end)):
            for offset in sorted(arrivals):
                if not left.waits(arrivals[offset]):
                    continue  # it was in the batch of an earlier one
                for _, batch in islice(positioned_batches(log, offset, end, bytes_max=1), 1):
                    header = read_header(batch)
                    for number, (record, (start, stop)) in enumerate(records_of(batch, header), header.base_offset):
                        arrival = arrivals.get(number)
                        if arrival is not None and left.remove(arrival):
                            yield from self._waiting(arrival, record, stop - start, header.max_timestamp)

    def _kept(self, left: WaitingBits) -> Iterator[WaitingRecord]:
        for _, batch in positioned_batches(self.logs.kept, self.kept_start, self.kept_end):
            for record, (start, end) in records_of(batch, read_header(batch)):
                arrival = arrival_of_kept(record)
                if left.remove(arrival):
                    yield from self._waiting(arrival, record, end - start, record.timestamp)

    def _arrived(self, left: WaitingBits, after_arrival: int) -> Iterator[WaitingRecord]:
        """Yield the records of the arrivals log that are left, in order."""
        first = max(left.first_waiting(), self.arrivals_start, after_arrival + 1)
        for _, batch in positioned_batches(self.logs.arrivals, first, self.view.end):
            header = read_header(batch)
            for number, (record, (start, end)) in enumerate(records_of(batch, header), header.base_offset):
                if number >= first and left.remove(number):
                    yield from self._waiting(number, record, end - start, header.max_timestamp)

    def _waiting(self, arrival: int, record: Record, size: int, due_without_header: int) -> Iterator[WaitingRecord]:
        """Yield a record that was read, unless it has a schedule that is over."""
        at_arrival, timer_id = due_without_header, None
        for name, value in record.headers:
            if name == DELIVER_AT:
                at_arrival = int(value or b"")
            elif name == TIMER_ID:
                timer_id = value
        due: int | None = self.view.due_ms(arrival, at_arrival)
        recurrence, has_time = self.view.recurring.get(arrival), True
        if recurrence is not None and recurrence.next_ms == NOT_YET_KNOWN:
            try:
                due = _next_due_ms(record, recurrence)
            except BadSchedule:
                due, has_time = recurrence.last_ms, False
        if due is not None:
            shown = record if self.has_values else record._replace(value=None)
            yield WaitingRecord(due, arrival, size, timer_id, shown, has_time)


def _next_due_ms(record: Record, recurrence: Recurrence) -> int | None:
    """
    Return the occurrence after the newest release of a record; None if there is none.  Raise BadSchedule if its time
    zone is not known here.
    """
    schedule = parse_schedule(record.headers)
    assert schedule is not None, "a record that recurs has a schedule"
    return schedule.next(recurrence.last_ms, recurrence.released_ms)


def first_due(
    records: Iterator[WaitingRecord], after: tuple[int, int], count: int, bytes_max: int
) -> tuple[list[WaitingRecord], bool]:
    """
    Return the records that are due first of those behind the pair `after` of due time and arrival, up to so many and to
    `bytes_max`, and whether there are more.
    """
    behind = (it for it in records if (it.due_ms, it.arrival) > after)
    return _first(behind, count, bytes_max, lambda it: (it.due_ms, it.arrival))


def _first(
    records: Iterable[WaitingRecord], count: int, bytes_max: int, key: Callable[[WaitingRecord], tuple[int, int]]
) -> tuple[list[WaitingRecord], bool]:
    """Return the first records by their keys, at least one unless `count` is 0, and whether there are more."""
    found: list[tuple[int, int, int, WaitingRecord]] = []  # a heap, of which the last record is the first
    end: tuple[int, int] | None = None  # the key from which on records were left out
    size = 0
    for serial, it in enumerate(records):
        at = key(it)
        if end is not None and at >= end:
            continue
        heappush(found, (-at[0], -at[1], serial, it))
        size += it.held_bytes
        while len(found) > count or (size > bytes_max and len(found) > 1):
            last = heappop(found)[-1]
            end = key(last)
            size -= last.held_bytes
    found.sort(reverse=True)
    return [it for *_, it in found], end is not None


def _is_selected(selection: Selection, timer_ids: Collection[bytes], found: WaitingRecord) -> bool:
    if timer_ids and found.timer_id not in timer_ids:
        return False
    key = found.record.key
    if selection.key is not None and key != selection.key:
        return False
    if selection.key_prefix is not None and (key is None or not key.startswith(selection.key_prefix)):
        return False
    if selection.is_recurring and all(name != SCHEDULE for name, _ in found.record.headers):
        return False
    if selection.due_from_ms != UNBOUNDED and found.due_ms < selection.due_from_ms:
        return False
    return selection.due_before_ms == UNBOUNDED or found.due_ms < selection.due_before_ms
