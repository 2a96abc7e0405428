"""Asserts that the history of a run violates no invariant, and that writes did not pause for too long."""

import math

import pytest

from tests.fault.cluster_scene import Verdict
from tests.fault.extent import IS_WHOLE, JUDGED_MIN, SLACK
from tests.fault.pauses import quantile

KILLED_SECONDS_MAX = 1.5  # upper limit for the p99 of write pauses after the leader's process has ended
SILENT_SECONDS_MAX = 4.0  # upper limit for the p99 of write pauses after the leader has fallen silent


def show_kept(verdict: Verdict, capsys: pytest.CaptureFixture[str], heading: str = "") -> None:
    """Print the verdict, then assert that no invariant was violated."""
    with capsys.disabled():
        print(f"{heading}{verdict}")
    assert verdict.broken == []


def judge(verdict: Verdict, fault: str, seconds_max: float, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Assert that no invariant was violated and that writes resumed after each fault.

    The soak run has enough pauses for statistics, so there the p99 must also be at most `seconds_max`.
    """
    show_kept(verdict, capsys)
    pauses = verdict.pauses[fault]
    assert all(map(math.isfinite, pauses)), f"{fault}: writes did not go on: {pauses}"
    if IS_WHOLE:
        assert len(pauses) >= JUDGED_MIN, f"{fault}: {len(pauses)} pauses were measured, {JUDGED_MIN} are needed"
        slow = quantile(pauses, 0.99)
        assert slow <= seconds_max, f"{fault}: the p99 of pauses is {slow:.2f} s, the bound is {seconds_max} s"


def judge_stops(verdict: Verdict) -> None:
    """
    Assert that a broker that stops cleanly, or gives up its leaders, is replaced at least as fast as a leader that
    dies.  All pauses of the run count together, because each kind has too few for statistics.
    """
    pauses = [pause for those in verdict.pauses.values() for pause in those]
    assert all(map(math.isfinite, pauses)), f"writes did not go on: {pauses}"
    slow = quantile(pauses, 0.99)
    assert slow <= KILLED_SECONDS_MAX * SLACK, f"writes paused for {slow:.2f} s"
