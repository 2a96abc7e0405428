"""How long to wait before the next try, and when to stop trying."""

import random
import time
from collections.abc import Callable

from tidemill.client.failures import ClientError, RetriesExhausted


class BackOff:
    """
    Doubles from `first_ms` to `longest_ms`, each pause drawn from its upper half, so that many clients of a broker
    that came back do not knock together.  `progressed` starts again: a deadline is for one obstacle, not for the job.
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

    def progressed(self) -> None:
        self._tries = 0
        self._gives_up_at = self._monotonic() + self._deadline_ms / 1_000

    def pause(self, why: ClientError) -> None:
        """Wait for the next try; RetriesExhausted, caused by `why`, when the deadline would be over by then."""
        step_ms = min(self._first_ms << min(self._tries, 16), self._longest_ms)
        seconds = step_ms * (1 + self._chance()) / 2_000
        if self._monotonic() + seconds > self._gives_up_at:
            raise RetriesExhausted(f"gave up after {self._deadline_ms} ms: {why}") from why
        self._tries += 1
        self._sleep(seconds)
