"""What must have become of each record of a timer partition, by the entries that the shard has committed.

The oracle reads records by itself, and shares with the brokers only the codecs of batches and commands.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.timer.timer_command import Cancel, CancelIds, Decision, Reschedule, RescheduleIds


class ArrivedTimer(NamedTuple):
    """A record of the arrivals log."""

    value: bytes
    stamp_ms: int  # the append time of its batch
    due_ms: int  # by its header, without later changes
    timer_id: bytes | None  # the hash of its id
    only_cancels: bool


@dataclass(slots=True)
class TimerOracle:
    """The state of one timer partition; the index in `arrivals` is the arrival number."""

    arrivals: list[ArrivedTimer] = field(default_factory=list)
    waiting: dict[int, int] = field(default_factory=dict)  # arrival → when it is due now, in order of arrival
    released: dict[int, int] = field(default_factory=dict)  # arrival → offset
    due_at_release: dict[int, int] = field(default_factory=dict)  # arrival → when it was due
    ended: dict[int, str] = field(default_factory=dict)  # arrival → why it never becomes visible
    of_id: dict[bytes, int] = field(default_factory=dict)  # hash of an id → the arrival that waits with it
    moved: set[int] = field(default_factory=set)  # arrivals that wait and were rescheduled
    rescheduled: set[tuple[int, int]] = field(default_factory=set)  # every arrival and due time that was decided
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
            if timer.timer_id is not None:
                self.of_id[timer.timer_id] = number

    def keep(self, base_offset: int, arrivals: Sequence[int]) -> None:
        if base_offset != self.kept_end:
            raise InvariantViolation(f"a kept record commits at {base_offset} after {self.kept_end} kept records")
        self.kept |= {number: offset for offset, number in enumerate(arrivals, base_offset)}
        self.kept_end += len(arrivals)

    def release(self, base_offset: int, arrivals: Sequence[int]) -> None:
        for offset, number in enumerate(arrivals, base_offset):
            if number not in self.waiting:
                raise InvariantViolation(
                    f"arrival {number} becomes visible at {offset}, and does not wait: "
                    f"{self.released.get(number, self.ended.get(number, 'it never arrived'))}"
                )
            self.due_at_release[number] = self.waiting[number]
            self._forget(number)
            self.released[number] = offset

    def decide(self, decision: Decision) -> None:
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

    def lost_by(self, arrivals_start: int, kept_start: int) -> list[int]:
        """Return the arrivals that wait and have no copy in logs that start at these offsets."""
        before = takewhile(lambda number: number < arrivals_start, self.waiting)
        return [number for number in before if self.kept.get(number, -1) < kept_start]

    def state(self) -> tuple[object, ...]:
        """Return what all replicas must agree on: the end, what waits, new times, and ids."""
        moved = {number: self.waiting[number] for number in sorted(self.moved)}
        return len(self.arrivals), [*self.waiting], moved, dict(sorted(self.of_id.items()))

    def _move(self, number: int, due: int) -> None:
        if number in self.waiting:
            self.waiting[number] = due
            self.moved.add(number)
            self.rescheduled.add((number, due))

    def _end(self, number: int, why: str) -> None:
        self._forget(number)
        self.ended[number] = why

    def _forget(self, number: int) -> None:
        del self.waiting[number]
        self.moved.discard(number)
        timer_id = self.arrivals[number].timer_id
        if timer_id is not None:
            del self.of_id[timer_id]
