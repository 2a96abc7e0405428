"""What the benches promise is judged whole: the ratio, and our own figure."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from benchmarks import report
from benchmarks.cases import REPLICATED, Case, Kind
from benchmarks.report import Outcome

OURS, YARDSTICK = "ours", "theirs"
LATENCY = Case(name="p50", kind=Kind.LATENCY, unit="ms", target=None, bound=20.0, higher_is_better=False)


def outcome(case: Case, ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> Outcome:
    rounds = {name: runs for name, runs in ((OURS, ours), (YARDSTICK, theirs)) if runs}
    return Outcome(case, rounds)


def test_a_miss_is_said_by_name() -> None:
    """
    The word in the table does not say what was missed.
    """
    shown = io.StringIO()
    console = Console(file=shown, width=150)

    report.show([outcome(LATENCY, [{"value": 21.0}], [])], ours=OURS, yardstick=YARDSTICK, notes=[], console=console)

    assert "p50: 21.00 ms, ≤ 20 ms wanted: miss" in shown.getvalue().splitlines()


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
    Issue 4, line 5: p50 within 20 ms.
    """
    assert [20.0] == [case.bound for case in REPLICATED if case.kind is Kind.LATENCY]
