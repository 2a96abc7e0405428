"""The time that a command has for several requests together."""

import math
import time
from typing import Final

LEAST_S: Final = 0.05  # what a request still gets after the deadline, so that it fails with an error of its own


class Deadline:
    """The moment at which a command gives up; without `seconds`, it never does."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._at = time.monotonic() + seconds

    def bounded(self, seconds: float) -> float:
        """Return `seconds`, or what is left until the deadline if that is less."""
        return min(seconds, max(self._at - time.monotonic(), LEAST_S))
