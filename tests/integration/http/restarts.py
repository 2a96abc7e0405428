"""Brokers that tests kill and restart."""

import os
import signal
from contextlib import ExitStack
from typing import Any

from tests.integration.cli.dev_cluster import started_again


class Restarts(ExitStack):
    """Kills and restarts brokers; those that were restarted run until the stack is closed."""

    def kill(self, broker: dict[str, Any]) -> None:
        os.kill(broker["pid"], signal.SIGKILL)

    def restart(self, broker: dict[str, Any]) -> None:
        """Return when the broker is ready."""
        self.enter_context(started_again(broker))  # it notes the new process id
