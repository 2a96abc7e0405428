"""The report of the test runner."""

from pathlib import Path

import pytest

from tools.run_tests import Outcome, counts_of, report, stages


@pytest.mark.parametrize(
    ("output", "counts"),
    [
        ("3 passed in 0.02s\n", {"passed": 3}),
        ("x\n1 failed, 2 passed, 3 skipped, 1 warning in 61.02s (0:01:01)\n", {"failed": 1, "passed": 2, "skipped": 3}),
        ("2 errors in 0.10s\n", {"error": 2}),
        ("killed", {}),
    ],
)
def test_counts_are_read_from_the_closing_line(output: str, counts: dict[str, int]) -> None:
    """
    The runner sums the counts in pytest's own summary line.
    """
    read = counts_of(output)

    assert counts == read


def test_a_stage_that_could_not_run_counts_as_failed() -> None:
    """
    A stage without output is not a success.
    """
    fine = Outcome(stage="unit", share_s=60, seconds=1.0, counts={"passed": 3, "skipped": 1}, is_broken=False)
    dead = Outcome(stage="Spark", share_s=120, seconds=2.0, counts={}, is_broken=True)

    text = report([fine, dead], 4.0)

    assert "3 passed, 1 failed, 1 skipped in 7 s" == text.splitlines()[-1]


def test_directories_without_a_stage_run_in_the_rest(tmp_path: Path) -> None:
    """
    A new directory of tests always runs.
    """
    for name in ("tests/unit/a", "tests/fault", "tests/integration/clients", "tests/integration/new"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "test_it.py").touch()

    found = {stage.name: stage.paths for stage in stages(tmp_path)}

    assert {
        "unit": ("tests/unit",),
        "clients": ("tests/integration/clients",),
        "faults": ("tests/fault",),
        "rest": ("tests/integration/new",),
    } == found
