"""The verdict on a run: every law is kept, and writes resume in time."""

import pytest

from tests.fault.cluster_scene import Verdict
from tests.fault.extent import IS_WHOLE, JUDGED_MIN, SLACK
from tests.fault.pauses import quantile

KILLED_SECONDS_MAX = 1.5  # p99 of the pause of writes after the process of a leader has ended
SILENT_SECONDS_MAX = 4.0  # p99 of the pause after a leader falls silent


def show_kept(verdict: Verdict, capsys: pytest.CaptureFixture[str], heading: str = "") -> None:
    """Print what was seen, and assert that no law is broken."""
    with capsys.disabled():
        print(f"{heading}{verdict}")
    assert verdict.broken == []


def judge(verdict: Verdict, fault: str, seconds_max: float, capsys: pytest.CaptureFixture[str]) -> None:
    show_kept(verdict, capsys)
    pauses = verdict.pauses[fault]
    assert len(pauses) >= JUDGED_MIN or not IS_WHOLE, f"{len(pauses)} pauses; at least {JUDGED_MIN} are required"
    slow = quantile(pauses, 0.99)
    assert slow <= seconds_max * SLACK, f"{fault}: the p99 of pauses is {slow:.2f} s, not {seconds_max * SLACK} s"
