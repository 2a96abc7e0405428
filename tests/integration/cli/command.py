"""Runs the `tidemill` command as a process."""

import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMILL_")} | {
    "PYTHONPATH": str(ROOT / "src")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    exit_code: int
    out: str
    err: str


def tidemill(*arguments: str, bootstrap: str | None = None, stdin: bytes = b"", **variables: str) -> Finished:
    """Run the command until it ends, with `bootstrap` and `variables` in its environment."""
    environment = ENVIRONMENT | variables | ({"TIDEMILL_BOOTSTRAP": bootstrap} if bootstrap else {})
    command = [sys.executable, "-m", "tidemill", *arguments]
    finished = subprocess.run(command, input=stdin, capture_output=True, env=environment, check=False, timeout=90)
    return Finished(exit_code=finished.returncode, out=finished.stdout.decode(), err=finished.stderr.decode())


def new_topic(bootstrap: str, partitions: int = 1) -> str:
    """Create a topic with a unique name and return the name."""
    name = f"cli-{uuid.uuid4().hex[:12]}"
    made = tidemill("topics", "create", name, "--partitions", str(partitions), bootstrap=bootstrap)
    assert 0 == made.exit_code, made.err
    return name
