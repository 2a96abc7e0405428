"""The examples in the help of each group of commands work."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.command import ENVIRONMENT, tidemill

PREPARATION = {
    "configs": ["topics create orders"],
    "groups": ["topics create orders", "groups reset billing --to latest --topic orders --execute"],
}
CLEANING = {
    "configs": ["topics delete orders", "configs unset --cluster log.retention.ms"],
    "groups": ["topics delete orders"],
}


@pytest.mark.parametrize("group", ["topics", "configs", "groups", "bench", "log", "cluster", "pipeline"])
def test_the_examples_of_a_group_work(group: str, dev_broker: dict[str, Any], tmp_path: Path) -> None:
    """
    A newcomer copies the examples from top to bottom, and each of them succeeds.
    """
    help_text = tidemill(group, "--help").out
    examples = [line.strip() for line in help_text.splitlines() if line.startswith("    tidemill ")]
    command = tmp_path / "tidemill"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tidemill "$@"\n')
    command.chmod(0o755)
    (tmp_path / "tidemill-data").symlink_to(dev_broker["data"])
    environment = ENVIRONMENT | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "TIDEMILL_BOOTSTRAP": dev_broker["kafka"],
        "TIDEMILL_HTTP": dev_broker["http"],
    }

    def run(line: str) -> tuple[str, int, str]:
        line = line.replace("127.0.0.1:9081", dev_broker["http"])
        finished = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line], cwd=tmp_path, env=environment, capture_output=True, timeout=90
        )
        return line, finished.returncode, finished.stderr.decode()

    try:
        prepared = [run(f"tidemill {line}") for line in PREPARATION.get(group, [])]
        ran = [run(line) for line in examples]
    finally:
        for line in CLEANING.get(group, []):
            run(f"tidemill {line}")

    assert 2 <= len(examples)
    assert [] == [told for told in prepared + ran if told[1] != 0]
