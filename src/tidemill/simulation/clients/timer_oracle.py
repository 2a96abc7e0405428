"""What must have become of each record of a timer partition, by the entries that the shard has committed.

The oracle reads records by itself, and shares with the brokers only the codecs of batches and commands.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import NamedTuple

from tidemill.simulation.clients.schedule_oracle import OracleSchedule
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.timer.timer_command import Cancel, CancelIds, Decision, Recur, Reschedule, RescheduleIds
from tidemill.timer.waiting_set import NOT_YET_KNOWN


class ArrivedTimer(NamedTuple):
    """A record of the arrivals log."""

    value: bytes
    stamp_ms: int  # the append time of its batch
    due_ms: int  # by its header, without later changes
    timer_id: bytes | None  # the hash of its id
    only_cancels: bool
    schedule: OracleSchedule | None = None


class VisibleTimer(NamedTuple):
    arrival: int
    due_ms: int


class Progress(NamedTuple):
    """How far a schedule has come; -1 before its first release."""

    last_ms: int  # the occurrence that was released last
    next_ms: int  # the one for which the record waits
    released_ms: int  # append time of the last release


@dataclass(slots=True)
class TimerOracle:
    """The state of one timer partition; the index in `arrivals` is the arrival number."""

    arrivals: list[ArrivedTimer] = field(default_factory=list)
    waiting: dict[int, int] = field(default_factory=dict)  # arrival → when it is due now, in order of arrival
    dues: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))  # all times that it waited for
    visible: list[VisibleTimer] = field(default_factory=list)  # by offset
    released: dict[int, int] = field(default_factory=dict)  # arrival, of a record without a schedule → offset
    schedules: dict[int, Progress] = field(default_factory=dict)  # arrivals that wait and have schedules
    ended: dict[int, str] = field(default_factory=dict)  # arrival → why it never becomes visible
    of_id: dict[bytes, int] = field(default_factory=dict)  # hash of an id → the arrival that waits with it
    moved: set[int] = field(default_factory=set)  # arrivals that wait and were rescheduled
    rescheduled: set[tuple[int, int]] = field(default_factory=set)  # every arrival and due time that was decided
    changes: int = 0  # of due times, by requests, releases and schedules
    changes_led: int = 0  # those that a leader has applied: a follower with a faster disk may apply them earlier
    skipped: int = 0  # occurrences
    kept: dict[int, int] = field(default_factory=dict)  # arrival → offset of its newest copy in the kept log
    kept_end: int = 0

    def arrive(self, base: int, timers: Sequence[ArrivedTimer]) -> None:
        if base != len(self.arrivals):
            raise InvariantViolation(f"arrival {base} commits after {len(self.arrivals)} arrivals")
        for number, timer in enumerate(timers, base):
            self.arrivals.append(timer)
            if timer.timer_id in self.of_id:
                self._end(self.of_id[timer.timer_id], f"replaced by {number}")
            if timer.only_cancels:
                self.ended[number] = "it only cancels"
                continue
            self.waiting[number] = timer.due_ms
            self.dues[number].add(timer.due_ms)
            if timer.schedule is not None:
                self.schedules[number] = Progress(-1, timer.due_ms, -1)
            if timer.timer_id is not None:
                self.of_id[timer.timer_id] = number

    def keep(self, base_offset: int, arrivals: Sequence[int]) -> None:
        if base_offset != self.kept_end:
            raise InvariantViolation(f"a kept record commits at {base_offset} after {self.kept_end} kept records")
        self.kept |= {number: offset for offset, number in enumerate(arrivals, base_offset)}
        self.kept_end += len(arrivals)

    def release(self, base_offset: int, arrivals: Sequence[int], append_time: int) -> None:
        if base_offset != len(self.visible):
            raise InvariantViolation(f"a release commits at {base_offset} after {len(self.visible)} released records")
        for offset, number in enumerate(arrivals, base_offset):
            if number not in self.waiting:
                raise InvariantViolation(
                    f"arrival {number} becomes visible at {offset}, and does not wait: "
                    f"{self.released.get(number, self.ended.get(number, 'it never arrived'))}"
                )
            due = self.waiting[number]
            self.visible.append(VisibleTimer(number, due))
            if number in self.schedules:
                self._occur(number, due, append_time)
            else:
                self._forget(number)
                self.released[number] = offset

    def _occur(self, number: int, due: int, append_time: int) -> None:
        """Let a record with a schedule wait, after a release, until its next occurrence is decided."""
        if due == NOT_YET_KNOWN:
            raise InvariantViolation(f"arrival {number} becomes visible again before its next occurrence is known")
        schedule = self.arrivals[number].schedule
        assert schedule is not None, f"arrival {number} recurs"
        if schedule.is_missed(due, append_time):
            raise InvariantViolation(f"arrival {number}, due at {due}, was missed and is released at {append_time}")
        self.schedules[number] = Progress(due, NOT_YET_KNOWN, append_time)
        self.dues[number].add(schedule.next(due, append_time))  # which is in the log a moment later
        self._wait_until(number, NOT_YET_KNOWN)

    def decide(self, decision: Decision, append_time: int, latest_ms: int) -> None:
        """
        Apply a decision.  `latest_ms` is the latest time that the leader may have taken for the present when it
        appended the decision, if that is later than its append time.
        """
        if isinstance(decision, Cancel):
            for number in decision.arrivals:
                if number in self.waiting:
                    self._end(number, "cancelled")
        elif isinstance(decision, CancelIds):
            for timer_id in decision.ids:
                if timer_id in self.of_id:
                    self._end(self.of_id[timer_id], "cancelled by its id")
        elif isinstance(decision, Reschedule):
            for number, due in decision.dues.items():
                self._move(number, due)
        elif isinstance(decision, RescheduleIds):
            for timer_id, due in decision.dues.items():
                self._move(self.of_id.get(timer_id, -1), due)
        else:
            self._recur(decision, append_time, max(append_time, latest_ms))

    def _recur(self, decision: Recur, append_time: int, latest_ms: int) -> None:
        """Check the next occurrence that a leader has computed, unless the record has gone on or ended meanwhile."""
        number, after, found = decision.arrival, decision.after_ms, decision.next_ms
        if number not in self.schedules:
            return
        progress, schedule = self.schedules[number], self.arrivals[number].schedule
        assert schedule is not None, f"arrival {number} recurs"
        if (progress.next_ms, progress.last_ms) == (NOT_YET_KNOWN, after):
            if found != schedule.next(after, progress.released_ms):
                raise InvariantViolation(f"arrival {number} occurs at {found} after {progress}, with {schedule}")
        elif progress.next_ms == after:
            if not schedule.skipped_at(after, found, append_time, latest_ms):
                raise InvariantViolation(
                    f"arrival {number} skips {after} for {found} at {append_time}, with {schedule}"
                )
            self.skipped += 1
        else:
            return
        self.schedules[number] = progress._replace(next_ms=found)
        self._wait_until(number, found)

    def check_schedules(self) -> None:
        """
        Check all occurrences of the schedules that no request has moved: each is released once, in order, and with
        missed=all none is left out.
        """
        moved = {number for number, _ in self.rescheduled}
        dues: dict[int, list[int]] = {}
        for number, due in self.visible:
            if self.arrivals[number].schedule is not None and number not in moved:
                dues.setdefault(number, []).append(due)
        for number, found in dues.items():
            schedule, first = self.arrivals[number].schedule, self.arrivals[number].due_ms
            assert schedule is not None, f"arrival {number} recurs"
            is_whole = schedule.missed == "all"
            if (is_whole and found[0] != first) or not all(
                before < due and schedule.after(before, before if is_whole else due - 1) == due
                for before, due in pairwise(found)
            ):
                raise InvariantViolation(f"arrival {number} with {schedule} was released at {found}")

    def lost_by(self, arrivals_start: int, kept_start: int) -> list[int]:
        """Return the arrivals that wait and have no copy in logs that start at these offsets."""
        before = takewhile(lambda number: number < arrivals_start, self.waiting)
        return [number for number in before if self.kept.get(number, -1) < kept_start]

    def state(self) -> tuple[object, ...]:
        """Return what all replicas must agree on: the end, what waits, new times, ids, and schedules."""
        moved = {number: self.waiting[number] for number in sorted(self.moved)}
        return len(self.arrivals), [*self.waiting], moved, dict(sorted(self.of_id.items())), dict(self.schedules)

    def _move(self, number: int, due: int) -> None:
        if number in self.waiting:
            if number in self.schedules:
                self.schedules[number] = self.schedules[number]._replace(next_ms=due)
            self._wait_until(number, due)
            self.rescheduled.add((number, due))

    def _wait_until(self, number: int, due: int) -> None:
        self.waiting[number] = due
        self.dues[number].add(due)
        self.moved.add(number)
        self.changes += 1

    def _end(self, number: int, why: str) -> None:
        self._forget(number)
        self.ended[number] = why

    def _forget(self, number: int) -> None:
        del self.waiting[number]
        self.moved.discard(number)
        self.schedules.pop(number, None)
        timer_id = self.arrivals[number].timer_id
        if timer_id is not None:
            del self.of_id[timer_id]
