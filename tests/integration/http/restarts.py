"""Brokers that tests kill and restart."""

import os
import signal
from contextlib import ExitStack
from typing import Any

from tests.integration.cli.dev_cluster import started_again


class Restarts(ExitStack):
    """Kills and restarts brokers; those that were restarted run until the stack is closed."""

    def __init__(self) -> None:
        super().__init__()
        self._pids: dict[str, int] = {}  # of the brokers that were restarted, by their addresses

    def kill(self, broker: dict[str, Any]) -> None:
        os.kill(self._pids.get(broker["kafka"], broker["pid"]), signal.SIGKILL)

    def restart(self, broker: dict[str, Any]) -> None:
        """Return when the broker is ready."""
        self._pids[broker["kafka"]] = self.enter_context(started_again(broker)).pid
