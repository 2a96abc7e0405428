"""The hooks of `.pre-commit-config.yaml` run tools of this environment, and download nothing."""

import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CONFIGURED = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]


def test_every_hook_is_local() -> None:
    """
    A hook is local and runs a program of `.venv`, with the version that `make check` uses.
    """
    hooks = [hook for repository in CONFIGURED for hook in repository["hooks"]]
    programs = [Path(hook["entry"].split()[0]) for hook in hooks]

    assert {"local"} == {repository["repo"] for repository in CONFIGURED}
    assert {"system"} == {hook["language"] for hook in hooks}
    assert ["ruff", "ruff-format", "mypy", "tidy"] == [hook["id"] for hook in hooks]
    assert {Path(".venv/bin")} == {program.parent for program in programs}
    assert [] == [program.name for program in programs if not (Path(sys.executable).parent / program.name).exists()]
