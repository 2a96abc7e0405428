"""A NATS server with JetStream, built from its Go module, with its own data and port."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from benchmarks.broker import BrokerProcess, Unavailable, free_port, wait_for_port
from benchmarks.maven import cache_directory

VERSION: Final = "v2.15.3"
MODULE: Final = f"github.com/nats-io/nats-server/v2@{VERSION}"
BUILD_SECONDS_MAX: Final = 600
READY_SECONDS_MAX: Final = 30.0


def server() -> Path:
    """Return the server program, which the first call builds.  Raise Unavailable if that is not possible."""
    found = cache_directory() / f"nats-{VERSION}" / "nats-server"
    if found.exists():
        return found
    go = shutil.which("go")
    if go is None:
        raise Unavailable("go is not installed; NATS is built from its Go module (https://go.dev/dl)")
    environment = {**os.environ, "GOBIN": str(found.parent)}
    try:
        outcome = subprocess.run(
            [go, "install", MODULE], env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX
        )
    except subprocess.TimeoutExpired as slow:
        raise Unavailable(f"go did not build {MODULE} within {BUILD_SECONDS_MAX} s") from slow
    if outcome.returncode != 0:
        raise Unavailable(f"go could not build {MODULE}: {outcome.stderr.strip()[-300:]}")
    return found


class Nats(BrokerProcess):
    def __init__(self, directory: Path, *, port: int | None = None, is_synced: bool = False) -> None:
        """By default, messages are synced every two minutes; with `is_synced`, always.  Raise Unavailable."""
        program = server()
        directory.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port()
        interval = ", sync_interval: always" if is_synced else ""
        configuration = directory / "nats.conf"
        configuration.write_text(
            f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{directory / "data"}"{interval} }}\n'
        )
        super().__init__(
            "NATS", [str(program), "-c", str(configuration)], log=directory / "server.log", environment=os.environ
        )

    def wait_until_ready(self) -> None:
        wait_for_port(self.port, self, seconds_max=READY_SECONDS_MAX)
