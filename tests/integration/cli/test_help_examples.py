"""The examples in the help of the commands work."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.command import ENVIRONMENT, tidemill
from tests.integration.cli.dev_broker import running_broker
from tests.unit.cli.command_tree import commands

Ran = tuple[str, int, str]
"""A command line that was run, its exit code, and what it wrote to stderr."""

PREPARATION = {
    "configs": ["topics create orders"],
    "groups": ["topics create orders", "groups reset billing --to latest --topic orders --execute"],
    "queue": [
        "topics create jobs",
        "configs set share.auto.offset.reset=earliest --group workers",
        "produce jobs < <(seq 10)",
    ],
    "timers": [
        "topics create reminders --kind timer",
        "produce reminders --key ann --header tidemill-timer-id=ann-1 --header tidemill-delay=2h < <(seq 1)",
    ],
    "dlq": ["topics create dlq.orders"],
}
CLEANING = {
    "topics": ["topics delete reminders"],
    "configs": ["topics delete orders", "configs unset --cluster log.retention.ms"],
    "groups": ["topics delete orders"],
    "queue": ["topics delete jobs", "groups delete workers", "configs unset share.auto.offset.reset --group workers"],
    "timers": ["topics delete reminders"],
    "dlq": ["topics delete dlq.orders"],
}

NOT_RUN = {"dev", "broker", "top", "bench", "pipeline"}
"""Commands that run until they are stopped, take fixed ports, or run for minutes; other tests run them."""
ON_CLUSTERS = {("cluster", name) for name in ("drain", "undrain", "may-stop", "replace", "remove", "move", "transfer")}
"""Commands that need several brokers; `docs/operations.md` has them, and the suite types it."""
IN_GROUPS = {("topics",), ("configs",), ("groups",), ("queue",), ("timers",), ("dlq",), ("log",), ("cluster",)}
"""Commands that only group others.  A separate test runs the examples in their help."""
SINGLE_PREPARATION = (
    "tidemill topics create orders --config retention.ms=86400000",
    "seq 100 | tidemill produce orders --partition 0",
    "tidemill groups reset billing --to latest --topic orders --execute",
    "tidemill topics create jobs",
    "tidemill configs set share.auto.offset.reset=earliest --group workers",
    "seq 100 | tidemill produce jobs --partition 0",
    "tidemill queue receive jobs workers --as me --max 50 --wait 30s",
    "tidemill topics create reminders --kind timer",
    "for id in 1 2 3 4; do seq 1 | tidemill produce reminders --partition 0 --key ann "
    "--header tidemill-timer-id=ann-$id --header tidemill-delay=2h; done",
    "tidemill topics create dlq.orders",
    "tidemill topics create orders-again",
)


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Yield the ready line of a broker for this file: the examples change the configuration of the broker."""
    with running_broker(tmp_path_factory.mktemp("data")) as ready:
        yield ready


@pytest.fixture
def run(own_broker: dict[str, Any], tmp_path: Path) -> Callable[[str], Ran]:
    """
    Return a function that runs a line in a shell, in a directory with the broker's data, as on the broker's machine.
    """
    command = tmp_path / "tidemill"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tidemill "$@"\n')
    command.chmod(0o755)
    (tmp_path / "tidemill-data").symlink_to(own_broker["data"])
    environment = ENVIRONMENT | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "TIDEMILL_BOOTSTRAP": own_broker["kafka"],
        "TIDEMILL_HTTP": own_broker["http"],
    }

    def run(line: str) -> Ran:
        line = line.replace("127.0.0.1:9081", own_broker["http"])
        finished = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line], cwd=tmp_path, env=environment, capture_output=True, timeout=90
        )
        return line, finished.returncode, finished.stderr.decode()

    return run


@pytest.mark.parametrize(
    "group", ["topics", "configs", "groups", "queue", "timers", "dlq", "bench", "log", "cluster", "pipeline"]
)
def test_the_examples_of_a_group_work(group: str, run: Callable[[str], Ran]) -> None:
    """
    A newcomer copies the examples from top to bottom, and each of them succeeds.
    """
    help_text = tidemill(group, "--help").out
    examples = [line.strip() for line in help_text.splitlines() if line.startswith("    tidemill ")]

    try:
        prepared = [run(f"tidemill {line}") for line in PREPARATION.get(group, [])]
        ran = [run(line) for line in examples]
    finally:
        for line in CLEANING.get(group, []):
            run(f"tidemill {line}")

    assert 2 <= len(examples)
    assert [] == [told for told in prepared + ran if told[1] != 0]


def test_the_examples_of_single_commands_work(run: Callable[[str], Ran]) -> None:
    """
    The examples of each single command succeed if the topics and groups that they name exist.
    """
    examples = [
        line
        for command in commands()
        if command.words and command.words[0] not in NOT_RUN and command.words not in IN_GROUPS | ON_CLUSTERS
        for line in command.examples
        if "--follow" not in line and (" jq " not in line or shutil.which("jq"))
    ]

    try:
        ran = [run(line) for line in (*SINGLE_PREPARATION, *examples)]
    finally:
        for name in ("orders", "copies", "jobs", "reminders", "dlq.orders", "orders-again"):
            run(f"tidemill topics delete {name}")

    assert 20 <= len(examples)
    assert [] == [told for told in ran if told[1] != 0]
