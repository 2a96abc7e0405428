"""Recurrences: the leader computes when records with schedules are due next, and writes it into the log.

    an occurrence is released, or skipped because it was missed ─▶ its next time is computed ─▶ RECUR ─▶ committed

Only the leader computes, after the release has committed, so that brokers with other time zone data agree.  A new
leader finds those whose next time is not in the log yet in the waiting set.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

from tidemill.broker.machine import Machine
from tidemill.broker.timers.waiting_reader import WaitingLogs, read_waiting
from tidemill.storage.partition.partition_log import OffsetGone
from tidemill.timer.due_row import KEPT, DueRow
from tidemill.timer.release_batch import Waiting, decoded
from tidemill.timer.schedule import Schedule, parse_schedule
from tidemill.timer.timer_command import Recur
from tidemill.timer.timer_partition import TimerPartition
from tidemill.timer.waiting_set import NOT_YET_KNOWN

TURN_MAX: Final = 200  # next occurrences that are computed in one turn of the event loop


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
    ) -> None:
        """
        `decide` proposes a decision for partition `number`, and calls a function when it is committed, or leadership is
        lost.  `failed` takes the error of a read of a record.
        """
        self._number = number
        self._timers = timers
        self._logs = logs
        self._machine = machine
        self._decide = decide
        self._failed = failed
        self._schedules: dict[int, Schedule] = {}  # by arrival, of records that were read
        self._busy: set[int] = set()  # arrivals whose records are read, or whose next occurrence is not committed
        self._is_over = False

    def stop(self) -> None:
        """Propose nothing any more: this broker does not lead the partition."""
        self._is_over = True

    def is_missed(self, waiting: Waiting, now_ms: int) -> bool:
        """
        Return whether a record that is about to be released has a schedule by which this occurrence is skipped; if so,
        propose the next one.
        """
        if waiting.arrival not in self._timers.waiting.recurring:
            return False
        schedule = self._adopt(waiting)
        if not schedule.is_missed(waiting.due_ms, now_ms):
            return False
        self._propose(waiting.arrival, schedule, waiting.due_ms, now_ms)
        return True

    def changed(self) -> None:
        """
        Propose the next occurrences of what has been released: of some, because each takes a while to compute.  The
        commit of their proposals is followed by another call.

        What an uncommitted change names is left out: if the change moves the record to the time of its last occurrence,
        the proposal behind it would skip the new one.  The commit of the change is followed by another call.
        """
        timers, waiting = self._timers, self._timers.waiting
        ready = (it for it in waiting.unscheduled if it not in self._busy and not timers.is_held(it))
        for arrival in [*islice(ready, TURN_MAX)]:
            recurrence = waiting.recurring[arrival]
            schedule = self._schedules.get(arrival)
            if schedule is None:
                self._busy.add(arrival)
                self._read(arrival)
            else:
                self._propose(arrival, schedule, recurrence.last_ms, recurrence.released_ms)

    def _propose(self, arrival: int, schedule: Schedule, after_ms: int, released_ms: int) -> None:
        self._busy.add(arrival)
        due_ms = schedule.next(after_ms, released_ms)
        decision = Recur(self._number, arrival, after_ms, NOT_YET_KNOWN if due_ms is None else due_ms)
        self._decide(decision, lambda _: self._decided(arrival))

    def _decided(self, arrival: int) -> None:
        self._busy.discard(arrival)
        recurring = self._timers.waiting.recurring
        if len(self._schedules) > 2 * len(recurring) + TURN_MAX:
            self._schedules = {it: schedule for it, schedule in self._schedules.items() if it in recurring}

    def _adopt(self, waiting: Waiting) -> Schedule:
        known = self._schedules.get(waiting.arrival)
        if known is None:
            known = parse_schedule(decoded(waiting.record)[2])
            assert known is not None, f"arrival {waiting.arrival} has no schedule"
            self._schedules[waiting.arrival] = known
        return known

    def _read(self, arrival: int) -> None:
        """Read the record of an arrival, and propose its next occurrence."""
        kept = self._timers.kept_offset(arrival)
        row = DueRow(0, arrival, arrival if kept is None else kept | KEPT)

        def read() -> list[Waiting] | Exception:
            try:
                return read_waiting(self._logs, [row], {}, may_wait=True) or []
            except (OSError, OffsetGone) as error:
                return error

        def done(found: list[Waiting] | Exception) -> None:
            self._busy.discard(arrival)
            if self._is_over:
                return
            if isinstance(found, Exception):
                self._failed(found)
                return
            for waiting in found:
                self._adopt(waiting)
            self.changed()

        self._machine.read_jobs.submit(read, done, self._machine.failed)
