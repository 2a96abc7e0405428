"""The test runner finds all tests and reports their results."""

import os
from pathlib import Path

import pytest

from tools import run_tests
from tools.run_tests import Outcome, Stage, class_archive, counts_of, report, run, skips_of, stages


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
    The runner reads the counts from pytest's closing line and sums them over the stages.
    """
    read = counts_of(output)

    assert counts == read


def test_a_stage_that_could_not_run_counts_as_failed() -> None:
    """
    A stage that could not run, and so has no output, counts as failed.
    """
    fine = Outcome(stage="unit", share_s=60, seconds=1.0, counts={"passed": 3, "skipped": 1}, is_broken=False)
    dead = Outcome(stage="Spark", share_s=120, seconds=2.0, counts={}, is_broken=True)

    text = report([fine, dead], 4.0, 3.0)

    assert "3 passed, 1 failed, 1 skipped in 7 s" == text.splitlines()[-1]


def test_directories_without_a_stage_run_in_the_rest(tmp_path: Path) -> None:
    """
    Test directories without their own stage run in the stage `rest`, so that a new directory always runs.
    """
    for name in ("tests/unit/a", "tests/fault", "tests/integration/clients", "tests/integration/new"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "test_it.py").touch()

    found = stages(tmp_path)

    quick, virtual, waiting = ([(stage.name, stage.paths) for stage in group] for group in found)
    assert ([("unit", ("tests/unit",))], []) == (quick, virtual)
    assert [
        ("rest", ("tests/integration/new",)),
        ("faults", ("tests/fault",)),
        ("clients", ("tests/integration/clients",)),
    ] == waiting


NO_STRACE, NO_FUSE = "strace is not installed (Debian package strace)", "/dev/fuse is missing, or not ours to open"
SUMMARY = f"""\
..s..ss
=========================== short test summary info ============================
SKIPPED [2] tests/fault/test_disks.py:61: {NO_STRACE}
SKIPPED [1] tests/fault/test_joining.py:32: {NO_STRACE}
SKIPPED [1] tests/fault/test_soak.py: for `make soak`: tests like it
FAILED tests/fault/test_disks.py::test_x - AssertionError: SKIPPED [1] is no skip
1 failed, 3 passed, 4 skipped in 2.10s
"""


def test_skips_are_read_from_the_summary_by_reason_and_file() -> None:
    """
    The runner reads skips by reason and file from the summary.  A skip by a mark has no line number, and a reason may
    contain colons.
    """
    skips = skips_of(SUMMARY)

    assert {
        NO_STRACE: {"tests/fault/test_disks.py": 2, "tests/fault/test_joining.py": 1},
        "for `make soak`: tests like it": {"tests/fault/test_soak.py": 1},
    } == skips


def test_the_report_lists_what_was_skipped_and_why() -> None:
    """
    The report lists the reasons for skips in all stages, the most frequent first, with the number of tests and their
    files.
    """
    skips = [{NO_FUSE: {"tests/fault/a.py": 1}, NO_STRACE: {"tests/fault/a.py": 2}}, {NO_STRACE: {"tests/b.py": 1}}]
    outcomes = [
        Outcome(
            stage="stage", share_s=60, seconds=1.0, counts={"passed": 1, "skipped": 3}, is_broken=False, skips=skipped
        )
        for skipped in skips
    ]

    lines = report(outcomes, 0.0, 2.0).splitlines()

    at = lines.index("skipped:")
    assert [
        f"  3  {NO_STRACE}",
        "       tests/b.py (1), tests/fault/a.py (2)",
        f"  1  {NO_FUSE}",
        "       tests/fault/a.py (1)",
        "",
        "2 passed, 0 failed, 6 skipped in 2 s",
    ] == lines[at + 1 :]


def test_a_report_without_skips_has_no_list_of_them() -> None:
    """
    A report without skips has no list of them and still ends with the closing line.
    """
    fine = Outcome(stage="unit", share_s=60, seconds=1.0, counts={"passed": 3}, is_broken=False)

    assert "skipped:" not in report([fine], 0.0, 1.0).splitlines()


def test_a_run_reports_the_skips_of_real_tests(tmp_path: Path) -> None:
    """
    The runner must ask pytest for the reasons of skips; without them, the report would have nothing to list.
    """
    path = tmp_path / "test_without_its_tool.py"
    path.write_text("import pytest\n\ndef test_nothing():\n    pytest.skip('the tool is not installed')\n")

    outcome = run(Stage(name="one", share_s=60, paths=(str(path),)), [])

    assert ["the tool is not installed"] == [*outcome.skips]
    assert "the tool is not installed" in report([outcome], 0.0, 1.0)


def test_the_archive_of_classes_is_made_beside_other_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The archive is made while the first stages run, and is complete when the stages begin that use it.  It is made once.
    """
    (tmp_path / "tools").mkdir()
    archive, begun = tmp_path / "archive", tmp_path / "begun"
    os.mkfifo(begun)
    program = tmp_path / "tools" / "spark_class_archive.py"
    program.write_text(f"open({str(begun)!r}).read(); import sys; open(sys.argv[1], 'a').write('made')")
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setattr(run_tests, "CLASS_ARCHIVE", archive)

    with class_archive():
        assert not archive.exists()
        begun.write_text("go on")  # the program waits for this
    with class_archive():
        pass

    assert "made" == archive.read_text()


def test_a_virtual_stage_runs_in_idle_time(tmp_path: Path) -> None:
    """
    All processes of a virtual stage are as nice as possible, and its tests have time.
    """
    told = tmp_path / "told"
    (tmp_path / "test_it.py").write_text(f"""
import os
from pathlib import Path

def test_it(pytestconfig):
    Path({str(told)!r}).write_text(f"{{os.nice(0)}} {{pytestconfig.option.timeout:.0f}}")
""")

    outcome = run(Stage(name="one", share_s=60, paths=(str(tmp_path),)), ["-n", "1"], is_virtual=True)

    assert ({"passed": 1}, "19 3600") == (outcome.counts, told.read_text())
