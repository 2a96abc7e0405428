"""Tools check style, types and layers."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BESIDE_PYTHON = Path(sys.executable).parent


@pytest.mark.parametrize(
    "command",
    [
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        pytest.param(("mypy",), marks=pytest.mark.long),
        ("lint-imports", "--no-cache"),
    ],
    ids=" ".join,
)
def test_a_tool_finds_nothing(command: tuple[str, ...]) -> None:
    """
    No tool reports a problem, so that reviewers need not look for problems that tools can find.
    """
    program, *arguments = command

    finished = subprocess.run(
        [BESIDE_PYTHON / program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=240
    )

    assert 0 == finished.returncode, finished.stdout[-8_000:] + finished.stderr[-2_000:]
