"""`tidemill doctor` on this machine.  These tests need no broker."""

import json
from pathlib import Path

from tests.integration.cli.command import tidemill


def test_each_check_has_a_line(tmp_path: Path) -> None:
    """
    Each check has a verdict; the data directory need not exist.  A machine that runs this suite fails no check.
    """
    finished = tidemill("doctor", "--data", str(tmp_path / "new" / "data"), "--json")
    table = tidemill("doctor", "--data", str(tmp_path))

    rows = [json.loads(line) for line in finished.out.splitlines()]
    names = [
        "python", "compiled code", "java", "open files", "data directory", "sync latency", "free disk", "clock",
        "port 9092", "port 9080",
    ]  # fmt: skip
    assert (0, names) == (finished.exit_code, [row["check"] for row in rows][: len(names)]), rows
    assert all(row["status"] in ("ok", "warn") and (row["fix"] is None) == (row["status"] == "ok") for row in rows)
    assert "check\tstatus\tfound\twhat to do" == table.out.splitlines()[0]
    assert [] == list(tmp_path.iterdir())


def test_a_failed_check_fails_the_command(tmp_path: Path) -> None:
    """
    If a check fails, the exit code of the command tells scripts that a broker cannot run on this machine.
    """
    (tmp_path / "file").touch()

    finished = tidemill("doctor", "--data", str(tmp_path / "file" / "data"), "--json")

    (failed,) = [row for row in map(json.loads, finished.out.splitlines()) if row["status"] == "fail"]
    assert (1, "data directory") == (finished.exit_code, failed["check"])
