"""A broker for the commands: the one at TIDEMILL_TEST_BOOTSTRAP if it is set, otherwise a new one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli.command import ENVIRONMENT


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a running broker."""
    given = os.environ.get("TIDEMILL_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    data: Path = tmp_path_factory.mktemp("data")
    options = ("--data", str(data), "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--json")
    command = [sys.executable, "-m", "tidemill", "dev", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as broker:
        assert broker.stdout is not None
        try:
            ready = json.loads(broker.stdout.readline())
            yield ready["kafka"]
        finally:
            broker.terminate()
            broker.wait(timeout=10)
