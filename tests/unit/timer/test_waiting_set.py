"""What waits of a timer partition."""

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tidemill.timer.waiting_bits import MalformedBits
from tidemill.timer.waiting_set import NOT_YET_KNOWN, Outcome, TimerArrival, WaitingSet

A, B = b"a" * 16, b"b" * 16


def test_a_later_arrival_with_the_same_id_replaces_the_one_that_waits() -> None:
    waiting = WaitingSet(10)

    assert [] == waiting.arrive(2, [TimerArrival(1, 7, A)])
    assert [11] == waiting.arrive(2, [TimerArrival(0, 9, A), TimerArrival(1, 9, B)])
    assert ([10, 12, 13], 12) == ([it for it in range(10, 14) if waiting.waits(it)], waiting.arrival_of(A))


def test_ids_within_one_batch_replace_each_other() -> None:
    waiting = WaitingSet()

    assert [0] == waiting.arrive(2, [TimerArrival(0, 1, A), TimerArrival(1, 2, A)])
    assert 1 == waiting.arrival_of(A)


def test_an_arrival_that_only_cancels_waits_for_nothing() -> None:
    waiting = WaitingSet()
    waiting.arrive(1, [TimerArrival(0, 1, A)])

    assert [0] == waiting.arrive(1, [TimerArrival(0, 0, A, only_cancels=True)])
    assert [] == waiting.arrive(1, [TimerArrival(0, 0, A, only_cancels=True)])
    assert (0, 3, 3, None) == (waiting.count, waiting.end, waiting.first_waiting(), waiting.arrival_of(A))


def test_a_released_id_can_be_used_again() -> None:
    waiting = WaitingSet()
    waiting.arrive(1, [TimerArrival(0, 1, A)])
    waiting.release([0])

    assert [] == waiting.arrive(1, [TimerArrival(0, 1, A)])
    assert 1 == waiting.arrival_of(A)


def test_nothing_is_released_twice() -> None:
    waiting = WaitingSet()
    waiting.arrive(1)
    waiting.release([0])

    with pytest.raises(AssertionError, match="arrival 0"):
        waiting.release([0])


def test_a_cancel_says_what_was_cancelled_and_what_was_over() -> None:
    waiting = WaitingSet()
    waiting.arrive(3, [TimerArrival(0, 1, A)])
    waiting.release([1])

    assert Outcome(2, 1, 2) == waiting.cancel([0, 1, 2, 3, -1])
    assert Outcome(0, 0, 2) == waiting.cancel_ids([A, B])


def test_an_occurrence_that_another_has_overtaken_changes_nothing() -> None:
    """Two leaders may have proposed what follows an occurrence: the first one counts."""
    waiting = WaitingSet()
    waiting.arrive(1, [TimerArrival(0, 100, b"a" * 16, is_recurring=True)])
    waiting.release([0], 100)

    applied = [waiting.recur(0, 100, 200), waiting.recur(0, 100, 300), waiting.recur(0, 100, NOT_YET_KNOWN)]
    due = waiting.due_ms(0, 100)
    skipped = [waiting.recur(0, 200, 400), waiting.recur(0, 200, NOT_YET_KNOWN)]  # the one that was missed, twice

    assert ([True, False, False], 200) == (applied, due)
    assert ([True, False], 400) == (skipped, waiting.due_ms(0, 100))
    assert waiting.waits(0)


def test_a_rescheduled_arrival_keeps_its_number() -> None:
    waiting = WaitingSet()
    waiting.arrive(2, [TimerArrival(0, 1, A)])
    waiting.release([1])

    assert Outcome(1, 1, 1) == waiting.reschedule({0: 50, 1: 50, 2: 50})
    assert (50, 2) == (waiting.due_ms(0, 1), waiting.due_ms(1, 2))
    assert Outcome(1, 0, 1) == waiting.reschedule_ids({A: 60, B: 60})
    assert 60 == WaitingSet.decode(waiting.encode()).due_ms(0, 1)


def test_the_index_sees_ids_bits_and_new_times() -> None:
    waiting = WaitingSet()
    assert not waiting.has_ids
    waiting.arrive(3, [TimerArrival(0, 1, A), TimerArrival(2, 3, B)])
    waiting.cancel([0])
    waiting.reschedule({1: 50})

    assert waiting.has_ids
    assert ([None, None, B], {1: 50}) == ([*map(waiting.id_of, range(3))], waiting.rescheduled)
    assert (2, 1) == (waiting.count_between(0, 3), waiting.count_between(0, 2))
    assert (True, False) == (waiting.any_between(0, 2), waiting.any_between(0, 1))
    assert [False, True, True] == [*map(waiting.bits().waits, range(3))]


def test_a_state_that_was_cut_is_refused() -> None:
    waiting = WaitingSet()
    waiting.arrive(3)
    waiting.release([1])
    waiting.reschedule({2: 9})
    encoded = waiting.encode()

    for end in range(len(encoded)):
        with pytest.raises(MalformedBits):
            WaitingSet.decode(encoded[:end])
    with pytest.raises(MalformedBits, match="version 2"):
        WaitingSet.decode(b"\2" + encoded[1:])
    with pytest.raises(MalformedBits):
        WaitingSet.decode(encoded + b"\0")


class AgreesWithAModel(RuleBasedStateMachine):
    """A dictionary says what waits; the set is restored from its encoded form now and then."""

    IDS = (None, A, B)

    def __init__(self) -> None:
        super().__init__()
        self.waiting = WaitingSet(7)
        self.end = 7
        self.due: dict[int, int] = {}  # of what waits
        self.at_arrival: dict[int, int] = {}  # when each was due when it arrived
        self.ids: dict[int, bytes] = {}  # of all arrivals

    @rule(arrivals=st.lists(st.tuples(st.integers(0, 99), st.sampled_from(IDS), st.booleans()), max_size=5))
    def arrive(self, arrivals: list[tuple[int, bytes | None, bool]]) -> None:
        expected, timers = [], []
        for at, (due, timer_id, cancels) in enumerate(arrivals):
            number, self.end = self.end, self.end + 1
            self.at_arrival[number] = due
            if timer_id is not None:
                for former in [it for it in self.due if self.ids.get(it) == timer_id]:
                    del self.due[former]
                    expected.append(former)
                self.ids[number] = timer_id
                timers.append(TimerArrival(at, due, timer_id, cancels))
            if timer_id is None or not cancels:
                self.due[number] = due
        assert expected == self.waiting.arrive(len(arrivals), timers)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        numbers = data.draw(st.sets(st.sampled_from(sorted(self.due)))) if self.due else set()
        self.waiting.release(numbers)
        for number in numbers:
            del self.due[number]

    @rule(numbers=st.sets(st.integers(0, 40)))
    def cancel(self, numbers: set[int]) -> None:
        changed = len(numbers & self.due.keys())
        over = sum(number < self.end for number in numbers) - changed
        assert Outcome(changed, over, len(numbers) - changed - over) == self.waiting.cancel(numbers)
        for number in numbers:
            self.due.pop(number, None)

    @rule(dues=st.dictionaries(st.sampled_from((A, B)), st.integers(100, 200)))
    def reschedule_ids(self, dues: dict[bytes, int]) -> None:
        found = {
            number: dues[timer_id] for number in self.due if (timer_id := self.ids.get(number)) in dues and timer_id
        }
        assert Outcome(len(found), 0, len(dues) - len(found)) == self.waiting.reschedule_ids(dues)
        self.due |= found

    @rule()
    def restore(self) -> None:
        restored = WaitingSet.decode(self.waiting.encode())
        restored.restore_ids(sorted(self.ids.items()))
        self.waiting = restored

    @invariant()
    def agrees(self) -> None:
        assert sorted(self.due) == [it for it in range(self.end + 1) if self.waiting.waits(it)]
        assert (len(self.due), self.end) == (self.waiting.count, self.waiting.end)
        assert min(self.due, default=self.end) == self.waiting.first_waiting()
        assert self.due == {it: self.waiting.due_ms(it, self.at_arrival[it]) for it in self.due}
        for timer_id in (A, B):
            with_id = [it for it in self.due if self.ids.get(it) == timer_id]
            assert (with_id or [None]) == [self.waiting.arrival_of(timer_id)]


TestAgreesWithAModel = AgreesWithAModel.TestCase
TestAgreesWithAModel.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
