"""Plants bugs in the production code of timer topics; the simulated clusters must find them."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tests.simulation.cluster.timer_run import (
    TimerRun,
    contended_timer_run,
    eventful_timer_run,
    isolated_timer_run,
    timer_run,
)
from tidemill.broker.timers.due_heap import DueHeap
from tidemill.broker.timers.led_timers import LedTimers
from tidemill.broker.timers.timer_host import TimerHost
from tidemill.shard import arrivals, catch_up
from tidemill.shard.shard import Shard
from tidemill.storage.machine.shard_machine import MachineNumber
from tidemill.storage.machine.timer_machine import TimerMachine
from tidemill.timer.due_time import DELIVER_AT
from tidemill.timer.native import due_values
from tidemill.timer.release_clock import ReleaseClock
from tidemill.timer.timer_changes import Released
from tidemill.timer.timer_partition import TimerPartition
from tidemill.timer.waiting_set import Outcome, WaitingSet


@dataclass(frozen=True, slots=True)
class TimerMutant:
    planted: Callable[[], AbstractContextManager[None]]
    seed: int  # of a run that has found it
    run: Callable[[int], TimerRun] = eventful_timer_run


@contextmanager
def consumes_at_append() -> Iterator[None]:
    """Let a release consume its arrivals when it is appended, so that a truncation does not undo it."""
    appended, apply = TimerPartition.appended, TimerPartition._apply

    def hasty(self: Any, index: int, change: Any) -> None:
        if isinstance(change, Released) and self.is_restored:
            apply(self, index, change)
            change = Released([], change.append_time)
        appended(self, index, change)

    with patch.object(TimerPartition, "appended", hasty):
        yield


@contextmanager
def releases_before_an_entry_of_its_term() -> Iterator[None]:
    """Let a leader release records as soon as it is elected."""
    tick = TimerHost.tick

    def hasty(self: Any) -> None:
        for shard in self._broker.shard_table.shards.values():
            is_led = any(key[0] is shard for key in self._led)
            if shard.has_timers and shard.is_unconfirmed and not is_led:
                with patch.object(Shard, "is_serving", True):
                    self.serving_changed(shard)
        tick(self)

    is_able = property(lambda self: not self._is_stopped and self.replica.leads and self.replica.may_propose)
    with patch.object(TimerHost, "tick", hasty), patch.object(Shard, "accepts_writes", is_able):
        yield


@contextmanager
def keeps_in_flight_over_a_term() -> Iterator[None]:
    """Let a leader that leads again count the batches that were in flight when it lost leadership."""
    begin, stop = LedTimers.__init__, LedTimers.stop
    left: Counter[int] = Counter()

    def begin_with_them(self: Any, *rest: Any, **named: Any) -> None:
        begin(self, *rest, **named)
        self._in_flight = left[id(self.timers)]

    def leave(self: Any) -> None:
        pending = [change for _, change in self.timers._pending if isinstance(change, Released)]
        left[id(self.timers)] += len(pending)
        stop(self)

    with patch.object(LedTimers, "__init__", begin_with_them), patch.object(LedTimers, "stop", leave):
        yield


@contextmanager
def forgets_holds() -> Iterator[None]:
    with patch.object(TimerPartition, "is_held", lambda self, arrival: False):
        yield


@contextmanager
def keeps_holds_of_truncated_changes() -> Iterator[None]:
    """Let what a truncated cancel, replacement or new time names stay held."""
    truncated = TimerPartition.truncated

    def forgetful(self: Any, from_index: int) -> None:
        with patch.object(TimerPartition, "_hold", lambda self, change, count: None):
            truncated(self, from_index)

    with patch.object(TimerPartition, "truncated", forgetful):
        yield


def _limit(self: Any, voters: Any, me: Any, wall_ms: int, monotonic_ms: int) -> list[int | None]:
    """Return the readings in order, the missing ones first."""
    known = [wall_ms if voter == me else self._now_at(voter, monotonic_ms) for voter in voters]
    return sorted(known, key=lambda it: -1 if it is None else it)


@contextmanager
def takes_the_upper_median() -> Iterator[None]:
    def upper(self: Any, voters: Any, *rest: Any) -> int | None:
        readings = _limit(self, voters, *rest)
        return readings[len(readings) // 2] if readings else None

    with patch.object(ReleaseClock, "limit", upper):
        yield


@contextmanager
def drops_missing_readings() -> Iterator[None]:
    def of_known(self: Any, voters: Any, *rest: Any) -> int | None:
        readings = [it for it in _limit(self, voters, *rest) if it is not None]
        return readings[(len(readings) - 1) // 2] if readings else None

    with patch.object(ReleaseClock, "limit", of_known):
        yield


@contextmanager
def counts_all_of_the_time_since_a_reading() -> Iterator[None]:
    begin = ReleaseClock.__init__

    with patch.object(ReleaseClock, "__init__", lambda self, drift_max=0.0: begin(self, 0.0)):
        yield


@contextmanager
def stamps_by_its_own_clock() -> Iterator[None]:
    with patch.object(Shard, "append_time", lambda self, now_ms: max(now_ms, self.log.last_append_time)):
        yield


@contextmanager
def takes_arrivals_without_a_limit() -> Iterator[None]:
    arrival_batch = arrivals.arrival_batch

    class Lax:
        """A partition whose shard always knows the time."""

        def __init__(self, of: Any) -> None:
            self._of = of

        def __getattr__(self, name: str) -> Any:
            return 0 if name == "release_limit" else Lax(self._of.shard) if name == "shard" else getattr(self._of, name)

    def lax(partition: Any, batch: Any, append_time: int) -> Any:
        return arrival_batch(Lax(partition), batch, append_time)  # type: ignore[arg-type]

    with patch("tidemill.shard.append.arrival_batch", lax):
        yield


@contextmanager
def rounds_due_times_down() -> Iterator[None]:
    due_times = due_values.due_times

    def early(block: Any, found: Any, *rest: Any) -> Any:
        dues, *more = due_times(block, found, *rest)
        for record, name, start, length in zip(*[iter(found)] * 4, strict=True):
            if due_values.NAMES[name] == DELIVER_AT and length > 0:
                fraction = bytes(block[start : start + length]).partition(b".")[2]
                digits = fraction[: len(fraction) - len(fraction.lstrip(b"0123456789"))]
                dues[record] -= bool(digits[3:].strip(b"0"))
        return dues, *more

    with patch.object(due_values, "due_times", early):
        yield


@contextmanager
def replaces_no_id_at_apply() -> Iterator[None]:
    arrive = WaitingSet.arrive

    def forgetful(self: Any, *arriving: Any) -> Any:
        self._of_id.clear()
        self._ids.clear()
        return arrive(self, *arriving)

    with patch.object(WaitingSet, "arrive", forgetful):
        yield


@contextmanager
def releases_by_the_old_copy() -> Iterator[None]:
    """Let the row of a record count although the record was rescheduled to a later time."""
    with (
        patch.object(WaitingSet, "due_ms", lambda self, number, at_arrival_ms: at_arrival_ms),
        patch.object(WaitingSet, "rescheduled", {}),
    ):
        yield


@contextmanager
def answers_before_the_decision_commits() -> Iterator[None]:
    decide = LedTimers.decide

    def hasty(self: Any, decision: Any, then: Any) -> None:
        decide(self, decision, lambda _: None)
        named = decision.ids if hasattr(decision, "ids") else getattr(decision, "arrivals", None) or decision.dues
        then(Outcome(len(named)))

    with patch.object(LedTimers, "decide", hasty):
        yield


@contextmanager
def offers_no_bits() -> Iterator[None]:
    """Leave the state of timers out of offers of snapshots."""
    encode = catch_up.encode_sections

    def without(machines: Any, commit_index: int, last_index: int) -> bytes:
        if MachineNumber.TIMERS not in machines.by_number:
            return encode(machines, commit_index, last_index)
        with patch.object(TimerMachine, "save", lambda self, commit_index, last_index: {}):
            return encode(machines, commit_index, last_index)

    with patch.object(catch_up, "encode_sections", without):
        yield


@contextmanager
def arms_its_timer_once() -> Iterator[None]:
    """Let an earlier record that arrives not re-arm the wake-up."""
    arm = DueHeap._arm

    def once(self: Any, now_ms: int) -> None:
        if self._timer is None:
            arm(self, now_ms)

    with patch.object(DueHeap, "_arm", once):
        yield


MUTANTS = (
    TimerMutant(consumes_at_append, 0),
    TimerMutant(releases_before_an_entry_of_its_term, 23),
    TimerMutant(keeps_in_flight_over_a_term, 2, contended_timer_run),
    TimerMutant(forgets_holds, 0),
    TimerMutant(keeps_holds_of_truncated_changes, 62),
    TimerMutant(takes_the_upper_median, 10),
    TimerMutant(drops_missing_readings, 2, isolated_timer_run),
    TimerMutant(counts_all_of_the_time_since_a_reading, 5),
    TimerMutant(stamps_by_its_own_clock, 5),
    TimerMutant(takes_arrivals_without_a_limit, 8),
    TimerMutant(rounds_due_times_down, 0),
    TimerMutant(replaces_no_id_at_apply, 0),
    TimerMutant(offers_no_bits, 7, timer_run),
    TimerMutant(arms_its_timer_once, 0),
    TimerMutant(releases_by_the_old_copy, 1),
    TimerMutant(answers_before_the_decision_commits, 1),
)
