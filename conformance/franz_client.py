"""The client franz-go, whose driver is built once if Go is installed and its modules can be downloaded."""

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from benchmarks.broker import Unavailable
from benchmarks.maven import cache_directory
from conformance.driven_client import DrivenClient

MODULE = Path(__file__).parent / "go"
BUILD_SECONDS_MAX = 600


class FranzClient(DrivenClient):
    name = "franz-go"

    @staticmethod
    @cache
    def command() -> Sequence[str]:
        if shutil.which("go") is None:
            raise Unavailable("go is not installed (https://go.dev/dl)")
        program = cache_directory() / "conformance" / "franz-driver"
        built = subprocess.run(
            ["go", "build", "-o", str(program), "."],
            cwd=MODULE, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX,
        )  # fmt: skip
        if built.returncode:
            raise Unavailable(f"Go could not build the driver: {built.stderr.strip()[-300:]}")
        return (str(program),)
