"""The benchmark of timers judges our figure by itself, and beside those of other systems."""

import argparse

from benchmarks.report import Outcome
from benchmarks.timer_clients import MESSAGE_BYTES, NUMBER, message, random_dues
from benchmarks.timers import CASES, NATS, NATS_SYNCED, OURS, chosen, verdicts


def options(*only: str, quick: bool = False) -> argparse.Namespace:
    return argparse.Namespace(only=only or None, rounds=2, seconds=10, quick=quick)


def test_each_target_has_a_verdict() -> None:
    """A system that was skipped has none."""
    (case,) = chosen(options("insert"))
    rounds = {OURS: [{"value": 90.0}], NATS: [{"value": 100.0}], NATS_SYNCED: [{"value": 3.0}]}

    told = verdicts(Outcome(case, rounds), case)
    alone = verdicts(Outcome(case, {OURS: rounds[OURS]}), case)

    assert ["insert: 0.9 of NATS's, ≥ 1 wanted: miss", "insert: 30 of NATS synced's, ≥ 15 wanted: pass"] == told
    assert [] == alone


def test_a_bound_is_one_of_our_figure() -> None:
    (case,) = chosen(options("late-50k"))

    assert ["late-50k: 50.10 ms, ≤ 50 wanted: miss"] == verdicts(Outcome(case, {OURS: [{"value": 50.1}]}), case)


def test_messages_are_due_at_a_rate() -> None:
    """Systems that sync each message get fewer."""
    (case,) = chosen(options("late-10k"))
    (quick,) = chosen(options("late-10k", quick=True))

    assert (100_000, 50_000) == (case.records_of(OURS), case.records_of(NATS_SYNCED))
    assert (10_000, 1) == (quick.records_of(OURS), quick.rounds_max)
    assert len(CASES) == len(chosen(options()))


def test_a_message_says_when_it_is_due_and_its_number() -> None:
    found = message(1_800_000_000_000, 42)

    assert MESSAGE_BYTES == len(found)
    assert (1_800_000_000_000, 42) == (int(found[:13]), int(found[NUMBER]))


def test_due_times_lie_within_their_span() -> None:
    assert [7, 7] == random_dues(7, 0, 2)
    dues = random_dues(100, 50, 1_000)
    assert 100 <= min(dues) < 103 and 146 < max(dues) < 150
