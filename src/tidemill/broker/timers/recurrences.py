"""Recurrences: the leader computes when records with schedules are due next, and writes it into the log.

    an occurrence is released, or skipped because it was missed ─▶ a job computes its next time ─▶ RECUR ─▶ committed

Only the leader computes, after the release has committed, so that brokers with other time zone data agree.  A new
leader finds those whose next time is not in the log yet in the waiting set.  Those that are skipped wait on until their
next time is committed: a new leader skips them again.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from tidemill.broker.machine import Machine
from tidemill.broker.timers.waiting_reader import WaitingLogs, read_waiting
from tidemill.storage.partition.partition_log import OffsetGone
from tidemill.timer.due_row import KEPT, DueRow
from tidemill.timer.release_batch import Waiting, decoded
from tidemill.timer.schedule import BadSchedule, Missed, Schedule, may_be_missed, parse_schedule
from tidemill.timer.timer_command import Recur
from tidemill.timer.timer_headers import MISSED
from tidemill.timer.timer_partition import TimerPartition
from tidemill.timer.waiting_set import NOT_YET_KNOWN

JOB_MAX: Final = 200  # next occurrences that one job computes, and that are proposed in one turn of the event loop
_SKIPS: Final = re.compile(b"%b.{1,10}%b" % (MISSED.encode(), Missed.NONE.encode()), re.DOTALL)
"""Matches a record with `tidemill-missed: none`, in which the length of the value lies between the two."""


class _Ended(NamedTuple):
    """An occurrence of an arrival that is over, and after which the next one is to be computed."""

    arrival: int
    due_ms: int
    released_ms: int  # append time of its release; if it is skipped instead, the last time at which it had to be


class Recurrences:
    def __init__(
        self,
        number: int,
        timers: TimerPartition,
        logs: WaitingLogs,
        machine: Machine,
        *,
        decide: Callable[[Recur, Callable[[object], None]], None],
        failed: Callable[[Exception], None],
        has_more: Callable[[], None],
    ) -> None:
        """
        `decide` proposes a decision for partition `number`, and calls a function with the outcome when it is committed,
        or with None if it is not proposed, or leadership is lost.  `failed` takes the error of a read of a record.
        `has_more` asks for a call of `compute` in a later turn.
        """
        self._number = number
        self._timers = timers
        self._logs = logs
        self._machine = machine
        self._decide = decide
        self._failed = failed
        self._has_more = has_more
        self._schedules: dict[int, Schedule] = {}  # by arrival, of records that were read
        self._skipped: dict[int, _Ended] = {}  # by arrival
        self._busy: set[int] = set()  # arrivals whose next occurrence is proposed, and not committed
        self._is_computing = False
        self._is_over = False

    def stop(self) -> None:
        """Propose nothing any more: this broker does not lead the partition."""
        self._is_over = True

    @property
    def is_needed(self) -> bool:
        """Whether the next occurrence of any arrival is to be computed."""
        return bool(self._timers.waiting.unscheduled or self._skipped)

    def unknown(self, found: Sequence[Waiting], now_ms: int) -> list[Waiting]:
        """
        Return those records, of some that are about to be released, whose schedules `is_missed` must know: their
        occurrences may be skipped, and the schedules were not adopted yet.
        """
        recurring = self._timers.waiting.recurring
        due = [it for it in found if it.arrival in recurring and may_be_missed(it.due_ms, now_ms)] if recurring else []
        return [it for it in due if it.arrival not in self._schedules and _SKIPS.search(it.record)]

    def adopt(self, schedules: Mapping[int, Schedule]) -> None:
        """Take note of the schedules of arrivals, which a job has read."""
        self._schedules |= schedules
        recurring = self._timers.waiting.recurring
        if len(self._schedules) > 2 * len(recurring) + JOB_MAX:
            self._schedules = {it: schedule for it, schedule in self._schedules.items() if it in recurring}

    def is_missed(self, waiting: Waiting, now_ms: int) -> bool:
        """
        Return whether a record that is about to be released has a schedule by which this occurrence is skipped; if so,
        `compute` finds the next one.  The record is not `unknown` at that time.
        """
        if waiting.arrival not in self._timers.waiting.recurring:
            return False
        schedule = self._schedules.get(waiting.arrival)
        if schedule is None or not schedule.is_missed(waiting.due_ms, now_ms):
            self._skipped.pop(waiting.arrival, None)  # it has been moved back since, and is released now
            return False
        self._skipped[waiting.arrival] = _Ended(waiting.arrival, waiting.due_ms, now_ms)
        self._has_more()
        return True

    def skips(self, arrival: int) -> bool:
        """Return whether an arrival still waits for an occurrence that is skipped."""
        return arrival in self._skipped and self._is_current(self._skipped[arrival])

    def compute(self, now_ms: int) -> None:
        """
        Compute the next occurrences of what has been released, or is skipped at `now_ms`, and propose them: of some, in
        a job, because each takes a while.  If there are more, `has_more` is called when these are proposed.
        """
        ended = [] if self._is_computing else [*islice(self._ended(now_ms), JOB_MAX)]
        if not ended:
            return
        self._is_computing = True
        known = {it.arrival: self._schedules[it.arrival] for it in ended if it.arrival in self._schedules}
        rows = [self._row(it.arrival) for it in ended if it.arrival not in known]

        def compute() -> tuple[dict[int, Schedule], list[tuple[_Ended, int | None]]] | Exception:
            try:
                read = schedules_of(read_waiting(self._logs, rows, {}, may_wait=True) or [])
            except (OSError, OffsetGone, BadSchedule) as error:
                return error
            schedules = known | read
            found = [it for it in ended if it.arrival in schedules]  # of large records, only the first are read
            return read, [(it, schedules[it.arrival].next(it.due_ms, it.released_ms)) for it in found]

        def done(found: tuple[dict[int, Schedule], list[tuple[_Ended, int | None]]] | Exception) -> None:
            self._is_computing = False
            if self._is_over:
                return
            if isinstance(found, Exception):
                self._failed(found)
                return
            self.adopt(found[0])
            self._propose(found[1])
            self._has_more()

        self._machine.read_jobs.submit(compute, done, self._machine.failed)

    def _ended(self, now_ms: int) -> Iterator[_Ended]:
        """
        Yield the occurrences that are over, and whose next one may be proposed now.

        What an uncommitted change names is left out: if the change moves the record to the time of its last occurrence,
        the proposal behind it would skip the new one.  The commit of the change is followed by a call of `compute`.

        What was skipped some time ago is skipped at `now_ms`, too.  If it counted from then, and more is skipped than
        can be computed before the next occurrences, each of these would be over as soon as it is known.
        """
        recurring = self._timers.waiting.recurring
        for it in self._timers.waiting.unscheduled:
            if self._is_free(it):
                yield _Ended(it, recurring[it].last_ms, recurring[it].released_ms)
        for it, ended in [*self._skipped.items()]:
            if not self._is_current(ended):
                del self._skipped[it]
            elif self._is_free(it):
                self._skipped[it] = ended._replace(released_ms=max(ended.released_ms, now_ms))
                yield self._skipped[it]

    def _is_free(self, arrival: int) -> bool:
        return arrival not in self._busy and not self._timers.is_held(arrival)

    def _is_current(self, ended: _Ended) -> bool:
        """Return whether an arrival has not changed since this occurrence was released, or was found to be missed."""
        recurrence = self._timers.waiting.recurring.get(ended.arrival)
        if recurrence is not None and self._skipped.get(ended.arrival) == ended:
            return recurrence.next_ms == ended.due_ms
        return recurrence == (ended.due_ms, NOT_YET_KNOWN, ended.released_ms)

    def _propose(self, found: Sequence[tuple[_Ended, int | None]]) -> None:
        """Propose next occurrences, except of arrivals that have changed meanwhile, or are about to."""
        for ended, due_ms in found:
            arrival = ended.arrival
            if self._is_free(arrival) and self._is_current(ended):
                self._busy.add(arrival)
                decision = Recur(self._number, arrival, ended.due_ms, NOT_YET_KNOWN if due_ms is None else due_ms)
                self._decide(decision, lambda outcome, ended=ended: self._decided(ended, outcome))  # type: ignore[misc]

    def _decided(self, ended: _Ended, outcome: object) -> None:
        """Forget what was skipped, if the decision is in the log.  Otherwise, what follows is computed again."""
        self._busy.discard(ended.arrival)
        if outcome is not None and self._skipped.get(ended.arrival) == ended:
            del self._skipped[ended.arrival]  # if the record is moved back to this time, it counts anew

    def _row(self, arrival: int) -> DueRow:
        kept = self._timers.kept_offset(arrival)
        return DueRow(0, arrival, arrival if kept is None else kept | KEPT)


def schedules_of(found: Iterable[Waiting]) -> dict[int, Schedule]:
    """
    Return the schedules of records that recur, by arrival.  Each takes a while.  Raise BadSchedule if the broker that
    let a record arrive knew a time zone that this one does not know.
    """
    schedules = {}
    for it in found:
        try:
            schedule = parse_schedule(decoded(it.record)[2])
        except BadSchedule as problem:
            raise BadSchedule(f"arrival {it.arrival}: {problem}") from problem
        assert schedule is not None, f"arrival {it.arrival} has no schedule"
        schedules[it.arrival] = schedule
    return schedules
