"""The timer that decides when a replica without a live leader campaigns.

A replica learns the time only from ticks, and an idle replica is not ticked.  So a timeout that starts between two
ticks is stored as a duration, and becomes a deadline at the next tick.  Otherwise a replica that an election wakes
after an idle hour would measure the timeout from its last tick, an hour ago, and would not give the election any time.
"""

from collections.abc import Callable
from typing import Final

ELECTION_MS: Final = 1_000  # the longest timeout after which an undecided election is repeated, without jitter
FIRST_ELECTION_MS: Final = 125  # the timeout after the first attempt; each further one doubles it, up to ELECTION_MS
ATTEMPTS_MAX: Final = 8  # attempts beyond this are not counted: by then the timeout has stopped growing


class ElectionTimer:
    """
    The election timer of one replica.

    Invariant: at most one of `_deadline` and `_pause_ms` is set.  If neither is set, the next tick chooses a timeout.
    """

    __slots__ = ("_attempts", "_deadline", "_jitter_ms", "_pause_ms")

    def __init__(self, jitter_ms: Callable[[], int]) -> None:
        """
        `jitter_ms` returns the random part of each timeout, so that replicas do not all campaign at the same time.
        """
        self._jitter_ms = jitter_ms
        self._deadline: int | None = None
        self._pause_ms: int | None = None
        self._attempts = 0  # campaigns since the last live leader

    def reset(self) -> None:
        """Restart the timer: the next tick chooses a new timeout."""
        self._deadline = self._pause_ms = None

    def leader_is_alive(self) -> None:
        """Restart the timer, and forget earlier attempts."""
        self.reset()
        self._attempts = 0

    def attempted(self) -> None:
        """Start the timeout after which a campaign that is still undecided is repeated."""
        self._wait(min(FIRST_ELECTION_MS << self._attempts, ELECTION_MS) + self._jitter_ms())
        self._attempts = min(self._attempts + 1, ATTEMPTS_MAX)

    def voted(self) -> None:
        """Start a timeout that gives the candidate for which this replica has voted time to win."""
        self._wait(ELECTION_MS + self._jitter_ms())

    def _wait(self, pause_ms: int) -> None:
        self._deadline, self._pause_ms = None, pause_ms

    def is_due(self, now_ms: int, *, is_only_voter: bool, is_leader_leaving: bool) -> bool:
        """
        Return whether to campaign now.  A sole voter does not wait.  `is_leader_leaving`: the leader is alive but no
        longer a voter; the first timeout is then longer by ELECTION_MS, so that the leader can commit its own removal.
        """
        if self._deadline is None:
            if self._pause_ms is not None:
                pause_ms = self._pause_ms
            elif is_only_voter:
                pause_ms = 0
            else:
                pause_ms = self._jitter_ms() + (ELECTION_MS if is_leader_leaving else 0)
            self._deadline, self._pause_ms = now_ms + pause_ms, None
        return now_ms >= self._deadline
