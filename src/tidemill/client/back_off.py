"""Exponential back-off between retries, with a deadline."""

import random
import time
from collections.abc import Callable

from tidemill.client.failures import ClientError, RetriesExhausted


class BackOff:
    """
    Pauses between retries, for a delay that doubles from `first_ms` to `longest_ms`.

    The actual pause is random, between half of the delay and the full delay, so that the clients of a restarted broker
    do not all retry simultaneously.  `reset` restarts the back-off and the deadline: `deadline_ms` limits one outage,
    not the entire job.
    """

    def __init__(
        self,
        *,
        first_ms: int,
        longest_ms: int,
        deadline_ms: int,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._first_ms = first_ms
        self._longest_ms = longest_ms
        self._deadline_ms = deadline_ms
        self._monotonic = monotonic
        self._sleep = sleep
        self._chance = chance
        self._tries = 0
        self._gives_up_at = monotonic() + deadline_ms / 1_000

    def reset(self) -> None:
        """Restart the back-off and the deadline after a success."""
        self._tries = 0
        self._gives_up_at = self._monotonic() + self._deadline_ms / 1_000

    def pause(self, why: ClientError) -> None:
        """Sleep before the next retry.  Raise RetriesExhausted if the pause would end after the deadline.

        `why` is the failure that makes the retry necessary; it becomes the cause of RetriesExhausted.
        """
        step_ms = min(self._first_ms << min(self._tries, 16), self._longest_ms)
        seconds = step_ms * (1 + self._chance()) / 2_000
        if self._monotonic() + seconds > self._gives_up_at:
            raise RetriesExhausted(f"gave up after {self._deadline_ms} ms: {why}") from why
        self._tries += 1
        self._sleep(seconds)
