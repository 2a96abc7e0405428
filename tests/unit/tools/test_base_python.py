"""Which Python the virtual environment is made from: stand-ins answer the two questions that each is asked."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "base_python.sh"
OLD, BARE, COMPLETE = (False, True), (True, False), (True, True)  # is new, is complete


def chosen(folder: Path, *answers: tuple[bool, bool]) -> str:
    """The name of the one that is taken, of candidates `0`, `1`, …"""
    candidates = []
    for number, (is_new, is_complete) in enumerate(answers):
        path = folder / str(number)
        answer = f'case "$2" in *ensurepip*) exit {not is_complete:d};; *) exit {not is_new:d};; esac'
        path.write_text(f"#!/bin/sh\n{answer}\n")
        path.chmod(0o755)
        candidates.append(str(path))
    told = subprocess.run([SCRIPT, *candidates], capture_output=True, text=True, check=True).stdout
    return Path(told.strip()).name


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
    assert chosen(tmp_path, *answers) == expected


def test_a_name_without_a_program_is_passed_over(tmp_path: Path):
    """As a shim of a version that is not installed."""
    missing = str(tmp_path / "missing")
    told = subprocess.run([SCRIPT, missing], capture_output=True, text=True, check=True)
    assert (told.stdout, told.stderr) == ("\n", "")
