"""The choice of the Python for the virtual environment, tested with fake interpreters.

`base_python.sh` runs two checks on each candidate: whether it is new enough, and whether it is complete.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "base_python.sh"
OLD, BARE, COMPLETE = (False, True), (True, False), (True, True)  # each: (is new enough, is complete)


def stand_in(path: Path, is_new: bool, is_complete: bool) -> Path:
    answer = f'case "$2" in *ensurepip*) exit {not is_complete:d};; *) exit {not is_new:d};; esac'
    path.write_text(f"#!/bin/sh\n{answer}\n")
    path.chmod(0o755)
    return path


def chosen(*candidates: Path) -> str:
    told = subprocess.run([SCRIPT, *candidates], capture_output=True, text=True, check=True)
    assert told.stderr == ""
    return told.stdout.strip()


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([COMPLETE, COMPLETE], "0", id="the-first"),
        pytest.param([BARE, COMPLETE], "1", id="the-first-that-has-all"),
        pytest.param([OLD, COMPLETE], "1", id="not-an-old-one"),
        pytest.param([OLD, BARE, BARE], "1", id="else-the-first-that-is-new"),
        pytest.param([OLD], "", id="none"),
    ],
)
def test_choice(tmp_path: Path, answers: list[tuple[bool, bool]], expected: str):
    """
    The script chooses the first complete candidate that is new enough, or else the first candidate that is new enough.
    """
    candidates = [stand_in(tmp_path / str(number), *answer) for number, answer in enumerate(answers)]
    assert Path(chosen(*candidates)).name == expected


def test_a_candidate_that_does_not_exist_is_skipped(tmp_path: Path):
    """A candidate that does not exist, such as the shim of a version that is not installed, is skipped."""
    there = stand_in(tmp_path / "there", *BARE)
    assert chosen(tmp_path / "missing", there) == str(there)
    assert chosen(tmp_path / "missing") == ""


def test_a_real_interpreter_is_complete_if_it_has_headers(tmp_path: Path):
    """The interpreter that runs this test counts as complete if it has headers."""
    ours, bare = Path(sys.executable), stand_in(tmp_path / "bare", *BARE)
    has_headers = Path(sysconfig.get_path("include"), "Python.h").exists()
    assert chosen(bare, ours) == str(ours if has_headers else bare)
