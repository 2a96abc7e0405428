"""Shell completion of the command line, as typer sets it up, and `--version`.  These tests need no broker."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli.command import ENVIRONMENT, ROOT, tidemill
from tidemill.cli.main import COMMANDS


def completed(line: str) -> list[str]:
    """Return the completions that bash gets when a user presses Tab at the end of `line`."""
    words = line.split(" ")
    asked = {"_TIDEMILL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return tidemill(**asked).out.split()


def test_all_commands_are_completed() -> None:
    """
    Tab after `tidemill` offers every command, although running a command loads only that command.
    """
    assert sorted(COMMANDS) == sorted(completed("tidemill "))


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tidemill to", {"top", "topics"}),
        ("tidemill topics ", {"create", "list", "describe", "alter", "delete"}),
        ("tidemill topics create --part", {"--partitions"}),
        ("tidemill topics create --kind ", {"log", "timer"}),
        ("tidemill consume orders --fo", {"--follow", "--format"}),
        ("tidemill produce --format ", {"text", "json", "base64"}),
        ("tidemill --v", {"--version"}),
    ],
)
def test_subcommands_options_and_choices_are_completed(line: str, offered: set[str]) -> None:
    """
    Tab offers whatever is allowed at the cursor's place in the line.
    """
    assert offered == set(completed(line))


def test_bash_completes_with_the_script_that_is_shown(tmp_path: Path) -> None:
    """
    `--show-completion` prints a script for the shell that runs the command, and bash completes with it.
    """
    command = tmp_path / "tidemill"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tidemill "$@"\n')
    command.chmod(0o755)
    script = (
        f'PATH={tmp_path}:$PATH; eval "$(tidemill --show-completion)"; '
        'COMP_WORDS=(tidemill groups de); COMP_CWORD=2; _tidemill_completion tidemill; echo "${COMPREPLY[@]}"'
    )

    finished = subprocess.run(["bash", "-c", script], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)

    assert (0, "describe delete\n", "") == (finished.returncode, finished.stdout, finished.stderr)


def test_the_documentation_undoes_the_installation(tmp_path: Path) -> None:
    """
    The commands of docs/quick-start.md for bash remove everything that `--install-completion` has written, and nothing
    else.
    """
    page = (ROOT / "docs/quick-start.md").read_text()
    undo = re.search(r"^rm ~/.bash_completions.*?(?=^```)", page, re.MULTILINE | re.DOTALL)
    assert undo is not None
    bashrc = tmp_path / ".bashrc"
    bashrc.write_text("alias ll='ls -l'\n")
    environment = ENVIRONMENT | {"HOME": str(tmp_path)}
    install = f"{sys.executable} -m tidemill --install-completion; true"  # `; true` keeps bash as the parent process

    subprocess.run(["bash", "-c", install], env=environment, check=True, capture_output=True, timeout=60)
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    changed = bashrc.read_text()
    subprocess.run(["bash", "-ec", undo[0]], env=environment, check=True, timeout=60)

    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {".bashrc", ".bash_completions/tidemill.sh"} == written
    assert "tidemill.sh" in changed and [bashrc] == left
    assert "alias ll='ls -l'" == bashrc.read_text().strip()


def test_the_version_is_shown() -> None:
    """
    `--version` prints the name and version of the program.
    """
    finished = tidemill("--version")

    assert 0 == finished.exit_code and re.fullmatch(r"tidemill \d+\.\d+\.\d+\S*\n", finished.out)
