"""Which Python the virtual environment is made from: stand-ins answer the two questions that each is asked."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "base_python.sh"
OLD, BARE, COMPLETE = (False, True), (True, False), (True, True)  # is new, is complete


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
    """New enough is a must; what is missing besides can be put up with."""
    candidates = [stand_in(tmp_path / str(number), *answer) for number, answer in enumerate(answers)]
    assert Path(chosen(*candidates)).name == expected


def test_a_name_without_a_program_is_passed_over(tmp_path: Path):
    """As a shim of a version that is not installed."""
    there = stand_in(tmp_path / "there", *BARE)
    assert chosen(tmp_path / "missing", there) == str(there)
    assert chosen(tmp_path / "missing") == ""


def test_a_real_one_is_complete_with_its_headers(tmp_path: Path):
    """What the stand-ins only claim is asked of this interpreter."""
    ours, bare = Path(sys.executable), stand_in(tmp_path / "bare", *BARE)
    has_headers = Path(sysconfig.get_path("include"), "Python.h").exists()
    assert chosen(bare, ours) == str(ours if has_headers else bare)
