"""The common deadline of all requests of a command."""

import math
import time
from typing import Final

LEAST_S: Final = 0.05  # a request gets this time even after the deadline, so that it fails with its own error


class Deadline:
    """The time at which a command gives up; without `seconds`, there is no limit."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._at = time.monotonic() + seconds

    def bounded(self, seconds: float) -> float:
        """Return `seconds`, or the time left until the deadline if that is shorter."""
        return min(seconds, max(self._at - time.monotonic(), LEAST_S))
