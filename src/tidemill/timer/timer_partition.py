"""What a replica knows of one timer partition: which records wait, the index by due time, and changes to come.

    append ─▶ pending ─▶ commit ─▶ applied to the waiting set and the index
                            └────▶ deferred, until the ids have been read again

The ids of timers and the index are not part of the saved state.  After a start or an install, a job reads them from the
records that wait; until then, committed changes are deferred, because a change may name a timer by its id.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from struct import Struct, error
from typing import Final

from tidemill.timer.due_index import DueIndex
from tidemill.timer.due_row import KEPT, ROW, DueRow, pack_rows, unpack_rows
from tidemill.timer.due_run import ReadRun
from tidemill.timer.kept_arrivals import ArrivalsByOffset
from tidemill.timer.timer_changes import (
    Arrived,
    Change,
    Decided,
    LoggedChange,
    Released,
    Relocated,
    decode_changes,
    encode_changes,
    kept_arrivals,
)
from tidemill.timer.timer_command import Cancel, CancelIds, Recur, Reschedule
from tidemill.timer.waiting_bits import CHUNK, CHUNK_BYTES, MalformedBits
from tidemill.timer.waiting_set import Outcome, Recurrence, WaitingSet

_HEAD: Final = Struct(">IQQ")  # length of the waiting set, first and end offset of the kept log
SEARCHED_CHUNKS_MAX: Final = 200  # in one search for the first arrival that is needed: 13 million arrivals, about 4 ms
OutcomeKnown = Callable[[int, Outcome], None]
"""Takes the log index of a decision and its outcome."""


class TimerPartition:
    def __init__(self) -> None:
        """Nothing has arrived yet."""
        self.waiting = WaitingSet()
        self.index = DueIndex(self.waiting)
        self.kept = ArrivalsByOffset()
        self.is_restored = True  # False until the ids and the index have been read from the records that wait
        self.replaced = 0  # arrivals that later ones with their ids have ended since the start
        self.decided: OutcomeKnown | None = None  # called on the leader, which answers those who asked
        self._first_needed = 0  # as it was last computed; it never goes back
        self._pending: deque[tuple[int, Change]] = deque()  # not committed
        self._deferred: deque[tuple[int, Change]] = deque()  # committed, not applied
        # Offsets of the kept log and arrivals, as they are read while this is restored; None from then on.
        self._kept_read: list[tuple[int, int]] | None = None
        # Arrivals, and hashes of ids, that uncommitted changes name, and how many do.
        self._held: dict[int | bytes, int] = {}
        self._arriving: Counter[bytes] = Counter()  # hashes of ids of records with schedules, of changes not applied

    @property
    def is_unused(self) -> bool:
        return not (self.waiting.end or self._pending)

    # Changes.

    def appended(self, index: int, change: Change) -> None:
        self._pending.append((index, change))
        self._hold(change, 1)
        self._expect(change, 1)

    def committed(self, index: int) -> None:
        """Apply the changes of an entry, which are the oldest that were not committed."""
        assert self._pending and self._pending[0][0] == index, f"entry {index} commits out of order"
        while self._pending and self._pending[0][0] == index:
            _, change = self._pending.popleft()
            self._hold(change, -1)
            if self.is_restored:
                self._apply(index, change)
            else:
                self._deferred.append((index, change))

    def truncated(self, from_index: int) -> None:
        while self._pending and self._pending[-1][0] >= from_index:
            _, change = self._pending.pop()
            self._hold(change, -1)
            self._expect(change, -1)

    def _hold(self, change: Change, count: int) -> None:
        held = self._held
        for name in _named(change):
            changes = held.get(name, 0) + count
            if changes:
                held[name] = changes
            else:
                del held[name]

    def _expect(self, change: Change, count: int) -> None:
        """Count the schedules of a change that is not applied yet, or do not count them any more."""
        if isinstance(change, Arrived):
            for timer_id in [it.timer_id for it in change.timers if it.is_recurring]:
                self._arriving[timer_id] += count
                if not self._arriving[timer_id]:
                    del self._arriving[timer_id]

    @property
    def schedule_count(self) -> int:
        """How many schedules wait, or will when what is in the log has been committed and applied."""
        recurring, arrival_of = self.waiting.recurring, self.waiting.arrival_of
        return len(recurring) + sum(arrival_of(it) not in recurring for it in self._arriving)

    def has_schedule(self, timer_id: bytes) -> bool:
        """Return whether a schedule waits with this hash of an id, or will when it has arrived."""
        return timer_id in self._arriving or self.waiting.arrival_of(timer_id) in self.waiting.recurring

    def recurrences(self) -> Mapping[int, Recurrence]:
        """Return how far each schedule has come, if the releases that are in the log are committed."""
        found = self.waiting.recurring
        if found and self._pending:
            found = dict(found)
            for change in [it for _, it in self._pending if isinstance(it, Released)]:
                for number in found.keys() & {*change.arrivals}:
                    found[number] = found[number].after_release(change.append_time)
        return found

    @property
    def last_release(self) -> int | None:
        """The last entry with a release that is not committed."""
        return next((index for index, it in reversed(self._pending) if isinstance(it, Released)), None)

    @property
    def holds_any(self) -> bool:
        """Whether an uncommitted change names any arrival or id."""
        return bool(self._held)

    def is_held(self, arrival: int) -> bool:
        """
        Return whether an uncommitted change names the arrival, by its number or its id: until its outcome is known, the
        record must not be released, because the answer would be wrong.
        """
        return bool(self._held) and (arrival in self._held or self.waiting.id_of(arrival) in self._held)

    def _apply(self, index: int, change: Change) -> None:
        waiting = self.waiting
        self._expect(change, -1)
        if isinstance(change, Arrived):
            self.replaced += len(waiting.arrive(change.record_count, change.timers))
            self.index.add(change.rows)
        elif isinstance(change, Relocated):
            self.kept.add(kept_arrivals(change.rows))
            self.index.add(self._at_present_times(change.rows))
        elif isinstance(change, Released):
            waiting.release(change.arrivals, change.append_time)
        else:
            outcome = self._decide(change)
            if self.decided is not None:
                self.decided(index, outcome)

    def _decide(self, change: Decided) -> Outcome:
        waiting, decision = self.waiting, change.decision
        if isinstance(decision, Cancel):
            return waiting.cancel(decision.arrivals)
        if isinstance(decision, CancelIds):
            return waiting.cancel_ids(decision.ids)
        if isinstance(decision, Recur):
            recurs = waiting.recur(decision.arrival, decision.after_ms, decision.next_ms)
            if recurs:
                self.index.add(self._moved(decision.arrival, decision.next_ms))
            return Outcome(int(recurs))
        if isinstance(decision, Reschedule):
            dues = decision.dues
            outcome = waiting.reschedule(dues)
        else:
            named = {waiting.arrival_of(timer_id): due for timer_id, due in decision.dues.items()}
            dues = {arrival: due for arrival, due in named.items() if arrival is not None}
            outcome = waiting.reschedule_ids(decision.dues)
        self.index.add(b"".join([self._moved(arrival, due) for arrival, due in dues.items() if waiting.waits(arrival)]))
        return outcome

    def _moved(self, arrival: int, due_ms: int) -> bytes:
        """Return the row of an arrival whose time has changed.  Its bytes are looked up when it is released."""
        offset = self.kept_offset(arrival)
        return ROW.pack(*DueRow(due_ms, arrival, arrival if offset is None else offset | KEPT))

    def kept_offset(self, arrival: int) -> int | None:
        """Return the offset of an arrival that waits in the kept log; None if it was not moved there."""
        return self.kept.offset_of(arrival) if arrival in self.kept else None

    def _at_present_times(self, rows: bytes) -> bytes:
        """Return rows with the times at which their records are due now: some may have been rescheduled."""
        due_of = self.waiting.due_ms
        return pack_rows(row._replace(due_ms=due_of(row.arrival, row.due_ms)) for row in unpack_rows(rows))

    def first_needed(self, log_start: int = 0) -> int:
        """
        Return the first arrival that waits and was not moved to the kept log, or `waiting.end`: no byte of an earlier
        one is needed any more in the arrivals log, which begins at `log_start`.  An earlier arrival is returned if the
        search is long; the next call goes on there.
        """
        waiting = self.waiting
        first = waiting.first_waiting()
        self.kept.forget_before(first)
        number = max(self._first_needed, first, min(log_start, waiting.end))
        view = waiting.bits()
        for _ in range(SEARCHED_CHUNKS_MAX):
            chunk, position = divmod(number, CHUNK)
            if number >= waiting.end:
                break
            start = (chunk * CHUNK - view.base) // 8
            over = int.from_bytes(view.over[start : start + CHUNK_BYTES], "little")
            unneeded = (over | self.kept.bits(chunk)) >> position
            count = (~unneeded & (unneeded + 1)).bit_length() - 1  # of the lowest bits, up to the first that is not set
            number += count
            if position + count < CHUNK:
                break
        self._first_needed = number
        return number

    # Restoring ids and index: a host reads runs of the index, and from the logs what no run has.

    def restore_run(self, read: ReadRun) -> None:
        """Adopt a run of the index."""
        self.waiting.restore_ids(read.ids)
        if read.run.is_kept and self._kept_read is not None:
            # A run may be newer than the saved state: records behind that are moved again by their entries.
            known = ((row.offset & ~KEPT, row.arrival) for row in unpack_rows(read.rows))
            self._kept_read += [it for it in known if it[0] < self.kept.end]
        self.index.restore(read)

    def restore_range(self, first: int, end: int, rows: bytes, ids: Iterable[tuple[int, bytes]]) -> None:
        """
        Adopt the rows of a range of offsets that `index.missing` has named, or of its beginning: those of records that
        wait, in order; and the hashes of their ids.
        """
        self.waiting.restore_ids(ids)  # at once, because runs that are written meanwhile must have them
        if first >= KEPT and self._kept_read is not None:
            self._kept_read += [(row.offset & ~KEPT, row.arrival) for row in unpack_rows(rows)]
        self.index.rebuild(first, end, rows)

    def apply_deferred(self, records_max: int) -> bool:
        """
        Apply changes that were deferred, until they concern `records_max` records or more: nothing is missing any more.
        Return whether all are applied, so that this is restored; otherwise call it again.
        """
        assert not self.is_restored, "ids and index are there already"
        if self._kept_read is not None:
            self.kept = ArrivalsByOffset(self.kept.end, {*self._kept_read})  # runs that were merged have the same ones
            self._kept_read = None
        left = records_max
        while self._deferred and left > 0:
            index, change = self._deferred.popleft()
            left -= _size(change)
            self._apply(index, change)
        self.is_restored = not self._deferred
        return self.is_restored

    # Saved state.

    def save(self, last_index: int) -> bytes:
        """Return the state as of the last applied change, and the changes behind it up to entry `last_index`."""
        waiting = self.waiting.encode()
        logged = [
            *(LoggedChange(index, change, True) for index, change in self._deferred),
            *(LoggedChange(index, change) for index, change in self._pending if index <= last_index),
        ]
        first = self.kept.first_needed(self.waiting.waits) if self.is_restored else self.index.kept_start
        return _HEAD.pack(len(waiting), first, self.kept.end) + waiting + encode_changes(logged)

    @classmethod
    def load(cls, data: bytes) -> "TimerPartition":
        """Return the state in `data`, whose ids and index are to be restored.  Raise struct.error if it is corrupt."""
        size, first, end = _HEAD.unpack_from(data)
        found = cls()
        try:
            found.waiting = WaitingSet.decode(data[_HEAD.size : _HEAD.size + size])
        except MalformedBits as problem:
            raise error(str(problem)) from None
        found.index = DueIndex(found.waiting, end)
        found.kept = ArrivalsByOffset(end)
        found.index.kept_start = first
        found.is_restored = not found.waiting.count
        found._kept_read = None if found.is_restored else []
        for index, change, is_committed in decode_changes(data[_HEAD.size + size :]):
            if not is_committed:
                found.appended(index, change)
                continue
            found._expect(change, 1)
            if found.is_restored:
                found._apply(index, change)
            else:
                found._deferred.append((index, change))
        return found


def _size(change: Change) -> int:
    """Return about how many records a change concerns, at least one."""
    if isinstance(change, Arrived | Relocated):
        return max(len(change.rows) // ROW.size, 1)
    if isinstance(change, Released):
        return max(len(change.arrivals), 1)
    return sum(1 for _ in _named(change))


def _named(change: Change) -> Iterator[int | bytes]:
    """Return the arrivals, or hashes of ids, that a change may end or move."""
    if isinstance(change, Arrived):
        return (it.timer_id for it in change.timers)
    if not isinstance(change, Decided):
        return iter(())
    decision = change.decision
    if isinstance(decision, Cancel):
        return iter(decision.arrivals)
    if isinstance(decision, Recur):
        return iter((decision.arrival,))
    return iter(decision.ids if isinstance(decision, CancelIds) else decision.dues)
