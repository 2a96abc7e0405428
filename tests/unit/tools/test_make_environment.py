"""The creation of the virtual environment into which the Makefile's commands install, tested with fake interpreters."""

import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).resolve().parents[3] / "Makefile"


def stand_in(path: Path, log: Path, *, works: bool = True) -> Path:
    """Write a fake interpreter that logs its arguments."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "$0 $*" >>{log}\nexit {not works:d}\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("works", [True, False], ids=["one-that-works", "a-broken-one"])
def test_an_environment_that_works_is_kept(tmp_path: Path, works: bool):
    """
    A virtual environment that works is kept, even if it was created with another Python, and gets the development
    dependencies.  A broken one is created again.
    """
    log = tmp_path / "log"
    shutil.copy(MAKEFILE, tmp_path)
    (tmp_path / "pyproject.toml").touch()
    stand_in(tmp_path / ".venv" / "bin" / "python", log, works=works)
    base = stand_in(tmp_path / "base", log)

    made = subprocess.run(
        ["make", "--silent", f"BASE_PYTHON={base}", ".venv/made-from-pyproject"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert works == (made.returncode == 0)
    assert (not works) == ("base -m venv" in log.read_text())
    assert "pip install" in log.read_text()
