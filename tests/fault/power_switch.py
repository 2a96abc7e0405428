"""Mounts a forgetful disk and cuts its power on request."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.tidemill_broker import REPOSITORY
from tests.fault.cluster_processes import wait_until

POWER_LOSS = "power-loss"


def skip_without_fuse() -> None:
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse is missing, or not ours to open")
    try:
        import mfusepy  # noqa: F401
    except (ImportError, OSError) as problem:
        pytest.skip(f"mfusepy or libfuse is missing (Debian package fuse3): {problem}")


class PowerSwitch:
    def __init__(self, root: Path) -> None:
        self.root = root

    def lose(self, seed: int) -> None:
        """Lose power: each unsynced page is kept, lost or torn."""
        (self.root / POWER_LOSS).write_text(f"seed {seed}")

    def lose_all(self) -> None:
        """Lose power, and with it all unsynced data."""
        (self.root / POWER_LOSS).write_text("all")


@contextmanager
def mounted(directory: Path) -> Iterator[PowerSwitch]:
    directory.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fault.forgetful_disk", str(directory)], cwd=REPOSITORY, stdin=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: os.path.ismount(directory) or process.poll() is not None, "forgetful disk", seconds_max=20)
        assert process.poll() is None, "the forgetful disk could not be mounted"
        yield PowerSwitch(directory)
    finally:
        subprocess.run(["fusermount3", "-u", "-z", str(directory)], check=False)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
