"""Plants bugs in the production code of recurring records; the simulated clusters must find them."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from functools import partial
from typing import Any
from unittest.mock import patch

from tests.simulation.cluster.timer_mutants import TimerMutant
from tests.simulation.cluster.timer_run import (
    contended_timer_run,
    eventful_timer_run,
    moved_timer_run,
    selecting_timer_run,
)
from tidemill.broker.timers import waiting_scan
from tidemill.broker.timers.led_timers import LedTimers
from tidemill.broker.timers.recurrences import Recurrences
from tidemill.timer.due_index import DueIndex
from tidemill.timer.release_batch import decoded
from tidemill.timer.schedule import Every, Missed, Schedule, parse_schedule
from tidemill.timer.timer_command import Recur
from tidemill.timer.timer_partition import TimerPartition
from tidemill.timer.waiting_set import NOT_YET_KNOWN, Outcome, WaitingSet


@contextmanager
def appends_occurrences_twice() -> Iterator[None]:
    """Let leaders propose an occurrence again although another proposal is under way, and replicas apply both."""
    compute, propose = Recurrences.compute, Recurrences._propose

    def careless(self: Any, number: int, after_ms: int, next_ms: int) -> bool:
        if number not in self.recurring:
            return False
        self._wait_until(number, next_ms)
        return True

    def forgetful(self: Any, now_ms: int) -> None:
        self._busy.clear()
        with patch.object(TimerPartition, "is_held", lambda self, arrival: False):
            compute(self, now_ms)

    def repeating(self: Any, found: Any) -> None:
        self._busy.clear()
        with patch.object(TimerPartition, "is_held", lambda self, arrival: False):
            propose(self, found)

    with (
        patch.object(WaitingSet, "recur", careless),
        patch.object(Recurrences, "compute", forgetful),
        patch.object(Recurrences, "_propose", repeating),
    ):
        yield


@contextmanager
def logs_occurrences_before_the_release() -> Iterator[None]:
    """Let a leader write the next occurrence into the log before the release of the last one."""
    propose = LedTimers._propose

    def hasty(self: Any, rows: Any, found: Any) -> None:
        for waiting in found:
            if waiting.arrival in self.timers.waiting.recurring:
                schedule = parse_schedule(decoded(waiting.record)[2])
                assert schedule is not None, f"arrival {waiting.arrival} recurs"
                next_ms = schedule.next(waiting.due_ms, waiting.due_ms)
                decision = Recur(self.partition.number, waiting.arrival, waiting.due_ms, next_ms or NOT_YET_KNOWN)
                self.decide(decision, lambda _: None)
        propose(self, rows, found)

    with patch.object(LedTimers, "_propose", hasty):
        yield


@contextmanager
def counts_from_the_release() -> Iterator[None]:
    """Let the interval of a schedule count from the time of a release instead of the time at which it was due."""
    following = Schedule.next

    def drifting(self: Any, last_due_ms: int, released_ms: int) -> int | None:
        is_interval = isinstance(self.rule, Every) and self.missed is not Missed.ALL
        return following(self, released_ms if is_interval else last_due_ms, released_ms)

    with patch.object(Schedule, "next", drifting):
        yield


@contextmanager
def makes_up_for_every_occurrence() -> Iterator[None]:
    """Let a schedule with missed=one release all occurrences that were missed."""
    following = Schedule.next

    def every(self: Any, last_due_ms: int, released_ms: int) -> int | None:
        return following(self, last_due_ms, last_due_ms if self.missed is Missed.ONE else released_ms)

    with patch.object(Schedule, "next", every):
        yield


@contextmanager
def skips_occurrences_of_all() -> Iterator[None]:
    """Let a schedule with missed=all go on behind its release, as with missed=one."""
    following = Schedule.next

    def one(self: Any, last_due_ms: int, released_ms: int) -> int | None:
        schedule = Schedule(self.rule, Missed.ONE) if self.missed is Missed.ALL else self
        return following(schedule, last_due_ms, released_ms)

    with patch.object(Schedule, "next", one):
        yield


@contextmanager
def releases_what_was_missed() -> Iterator[None]:
    """Let a schedule with missed=none release an occurrence, however late it is."""
    with patch.object(Schedule, "is_missed", lambda self, due_ms, now_ms: False):
        yield


@contextmanager
def releases_without_the_schedule() -> Iterator[None]:
    """Let a leader not read the schedule of a record whose occurrence may have to be skipped before it is released."""
    with patch.object(Recurrences, "unknown", lambda self, found, now_ms: []):
        yield


@contextmanager
def ignores_time_zones() -> Iterator[None]:
    """Let the zones of schedules be UTC."""
    with patch("tidemill.timer.schedule._zone", lambda given, kind: UTC):
        yield


@contextmanager
def lets_an_occurrence_survive_its_cancel() -> Iterator[None]:
    """Let a cancel have no effect while the next occurrence of a released record is not in the log yet."""
    cancel, cancel_ids = WaitingSet.cancel, WaitingSet.cancel_ids

    def of_arrivals(self: Any, numbers: Any) -> Outcome:
        return cancel(self, [it for it in numbers if it not in self.unscheduled])

    def of_ids(self: Any, ids: Any) -> Outcome:
        return cancel_ids(self, [it for it in ids if self._of_id.get(it) not in self.unscheduled])

    with patch.object(WaitingSet, "cancel", of_arrivals), patch.object(WaitingSet, "cancel_ids", of_ids):
        yield


@contextmanager
def forgets_the_last_release_on_restart() -> Iterator[None]:
    """Let the time of the last release of a schedule be missing in checkpoints."""
    encode = WaitingSet.encode

    def without(self: Any) -> bytes:
        known = self.recurring
        self.recurring = {number: it._replace(released_ms=-1) for number, it in known.items()}
        try:
            return encode(self)
        finally:
            self.recurring = known

    with patch.object(WaitingSet, "encode", without):
        yield


@contextmanager
def leaves_released_schedules_to_their_leader() -> Iterator[None]:
    """Let a leader compute the next occurrences only of what it has released itself."""
    ended = Recurrences._ended

    def own(self: Any, now_ms: int) -> Iterator[Any]:
        return (it for it in ended(self, now_ms) if it.arrival in self._schedules)

    with patch.object(Recurrences, "_ended", own):
        yield


@contextmanager
def adds_no_row_for_an_occurrence() -> Iterator[None]:
    """Let the next occurrence be known, but not to the index by due time."""
    decide = TimerPartition._decide

    def without_row(self: Any, change: Any) -> Outcome:
        decision = change.decision
        if isinstance(decision, Recur):
            return Outcome(int(self.waiting.recur(decision.arrival, decision.after_ms, decision.next_ms)))
        return decide(self, change)

    with patch.object(TimerPartition, "_decide", without_row):
        yield


@contextmanager
def computes_behind_uncommitted_changes() -> Iterator[None]:
    """Let a leader compute the next occurrence although an uncommitted change gives the record another time."""
    with patch.object(Recurrences, "_is_free", lambda self, arrival: arrival not in self._busy):
        yield


@contextmanager
def releases_what_was_moved_back_twice() -> Iterator[None]:
    """Let a record be released twice that was moved to another time and back while it was read."""
    with patch.object(DueIndex, "claim", lambda self, rows: None):
        yield


@contextmanager
def selects_released_schedules_by_no_time() -> Iterator[None]:
    """Let a schedule be due later than all others until its next occurrence is in the log."""
    with patch.object(waiting_scan, "_next_due_ms", lambda record, last: NOT_YET_KNOWN):
        yield


_eventful = partial(eventful_timer_run, has_schedules=True)
_moved = partial(moved_timer_run, has_schedules=True)
_contended = partial(contended_timer_run, has_schedules=True)

MUTANTS = (
    TimerMutant(appends_occurrences_twice, 173, _eventful),
    TimerMutant(logs_occurrences_before_the_release, 0, _eventful),
    TimerMutant(counts_from_the_release, 0, _eventful),
    TimerMutant(makes_up_for_every_occurrence, 0, _eventful),
    TimerMutant(skips_occurrences_of_all, 5, _eventful),
    TimerMutant(releases_what_was_missed, 4, _eventful),
    TimerMutant(releases_without_the_schedule, 3, _eventful),
    TimerMutant(ignores_time_zones, 0, _eventful),
    TimerMutant(lets_an_occurrence_survive_its_cancel, 14, _contended),
    TimerMutant(forgets_the_last_release_on_restart, 3, _eventful),
    TimerMutant(leaves_released_schedules_to_their_leader, 103, _contended),
    TimerMutant(computes_behind_uncommitted_changes, 28, _contended),
    TimerMutant(releases_what_was_moved_back_twice, 7, _moved),
    TimerMutant(adds_no_row_for_an_occurrence, 0, _eventful),
    TimerMutant(selects_released_schedules_by_no_time, 5, selecting_timer_run),
)
