"""Runs `tidemill dev` as a process and reads its ready line."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration.cli.command import ENVIRONMENT


@contextmanager
def running_broker(data: Path, **variables: str) -> Iterator[dict[str, Any]]:
    """
    Start a broker on `data`, with `variables` in its environment.  Yield its ready line, and stop the broker at the
    end.
    """
    options = ("--data", str(data), "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--json")
    command = [sys.executable, "-m", "tidemill", "dev", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT | variables) as broker:
        assert broker.stdout is not None
        try:
            yield json.loads(broker.stdout.readline())
        finally:
            broker.terminate()
            broker.wait(timeout=10)
