"""What a run must have kept: every law, and the time in which writes go on."""

import pytest

from tests.fault.cluster_scene import Verdict
from tests.fault.extent import IS_WHOLE, JUDGED_MIN, SLACK
from tests.fault.pauses import quantile

KILLED_SECONDS_MAX = 1.5  # p99 of how long writes pause when the leader's process ends
SILENT_SECONDS_MAX = 4.0  # … and when it is not heard any more


def show_kept(verdict: Verdict, capsys: pytest.CaptureFixture[str], heading: str = "") -> None:
    """Every law was kept; what was seen is printed in any case."""
    with capsys.disabled():
        print(f"{heading}{verdict}")
    assert verdict.broken == []


def judge(verdict: Verdict, fault: str, seconds_max: float, capsys: pytest.CaptureFixture[str]) -> None:
    show_kept(verdict, capsys)
    pauses = verdict.pauses[fault]
    assert len(pauses) >= JUDGED_MIN or not IS_WHOLE, f"{len(pauses)} pauses, and {JUDGED_MIN} are wanted"
    slow = quantile(pauses, 0.99)
    assert slow <= seconds_max * SLACK, f"{fault}: the p99 of pauses is {slow:.2f} s, not {seconds_max * SLACK} s"
