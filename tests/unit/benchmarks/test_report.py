"""What the benches promise is judged whole: the ratio, our own figure, and that a run lasted for enough checkpoints."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from benchmarks import report
from benchmarks.cases import CHECKPOINTS_MIN, RATE, REPLICATED, Case, Kind, Load
from benchmarks.report import Outcome

OURS, YARDSTICK = "ours", "theirs"
PRODUCE = Case(name="produce", kind=Kind.PRODUCE, unit=RATE, target=1.0, checkpoints_min=CHECKPOINTS_MIN)
LATENCY = Case(name="p50", kind=Kind.LATENCY, unit="ms", target=None, bound=20.0, higher_is_better=False)


def outcome(case: Case, ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> Outcome:
    rounds = {name: runs for name, runs in ((OURS, ours), (YARDSTICK, theirs)) if runs}
    return Outcome(case, rounds)


def runs(*checkpoints: int, rate: float = 200.0) -> list[dict[str, float]]:
    return [{"value": rate, "checkpoints": count} for count in checkpoints]


@pytest.mark.parametrize(("least", "passes"), [(2, False), (3, True)])
def test_one_run_with_too_few_checkpoints_is_a_miss(least: int, passes: bool) -> None:
    """
    The median of the runs would hide it, and a good rate as well.
    """
    judged = outcome(PRODUCE, runs(5, least, 5), [{"value": 100.0}])

    assert passes == judged.passes(OURS, YARDSTICK)


def test_a_miss_is_said_by_name() -> None:
    """
    The word in the table does not say what was missed.
    """
    shown = io.StringIO()
    console = Console(file=shown, width=150)

    report.show(
        [outcome(PRODUCE, runs(2), [{"value": 100.0}])], ours=OURS, yardstick=YARDSTICK, notes=[], console=console
    )

    assert "produce: a run had 2 checkpoints on a broker, ≥ 3 wanted: miss" in shown.getvalue().splitlines()


def test_enough_checkpoints_do_not_excuse_the_rate() -> None:
    """
    Every promise counts.
    """
    assert False is outcome(PRODUCE, runs(5, rate=50.0), [{"value": 100.0}]).passes(OURS, YARDSTICK)


def test_nothing_passes_that_could_not_be_judged() -> None:
    """
    Without the yardstick there is no ratio; too few checkpoints are a miss all the same.
    """
    assert None is outcome(PRODUCE, runs(5), []).passes(OURS, YARDSTICK)
    assert False is outcome(PRODUCE, runs(2), []).passes(OURS, YARDSTICK)
    assert None is outcome(PRODUCE, [], [{"value": 100.0}]).passes(OURS, YARDSTICK)


@pytest.mark.parametrize(("p50", "passes"), [(20.0, True), (20.1, False)])
def test_a_bound_is_of_our_own_figure(p50: float, passes: bool) -> None:
    """
    Whatever the yardstick does.
    """
    assert passes == outcome(LATENCY, [{"value": p50}], [{"value": 1.0}]).passes(OURS, YARDSTICK)
    assert passes == outcome(LATENCY, [{"value": p50}], []).passes(OURS, YARDSTICK)


def test_a_case_without_a_promise_is_only_shown() -> None:
    """
    It has no verdict.
    """
    assert None is outcome(replace(LATENCY, bound=None), [{"value": 1.0}], [{"value": 1.0}]).passes(OURS, YARDSTICK)


def test_three_brokers_are_judged_by_what_was_asked() -> None:
    """
    Issue 4, line 5: at least three checkpoints in every produce run, p50 within 20 ms, at least three rounds.
    """
    cases = {case.name: case for case in REPLICATED}

    assert {3} == {case.checkpoints_min for case in REPLICATED if case.kind is Kind.PRODUCE}
    assert 20.0 == cases["latency-p50"].bound
    assert all(case.rounds_max >= 3 for case in REPLICATED if case.kind is not Kind.MEMORY_AFTER)


def test_the_yardstick_may_be_sent_fewer_records() -> None:
    """
    Its own number is made smaller with ours, and is ours where it has none.
    """
    case = replace(PRODUCE, load=Load(records=1_000), yardstick_records=100)

    assert 100 == case.for_yardstick().load.records
    assert (500, 50) == (case.part(2).load.records, case.part(2).for_yardstick().load.records)
    assert 1_000 == replace(case, yardstick_records=None).for_yardstick().load.records
