"""Journal pressure: how long the journal has had no room for entries, and when the replica therefore yields leadership.

Entries of a leader whose journal is full become durable on other brokers but not on its own disk, so the leader must
not serve them.  A replica does not campaign while its journal is full.  After FULL_MS a leader asks one voter after
another to campaign, until one of them leads.  It continues to ask after it has stepped down: followers that have not
learned that it stepped down still consider it the leader, because its broker is alive.
"""

from collections.abc import Sequence
from typing import Final

from tidemill.model.broker_id import ReplicaKey

FULL_MS: Final = 2_000


class JournalPressure:
    """
    Measures how long the journal has been full, and selects the next voter to ask to campaign.

    Invariant: `_full_since` is the time of the first tick in the current series of ticks that found the journal full.
    """

    __slots__ = ("_attempts", "_full_since", "led_term")

    def __init__(self) -> None:
        self._full_since: int | None = None
        self._attempts = 0  # attempts to yield since `_full_since`
        self.led_term = 0  # the last term that this replica led, until it learns of another leader; 0 if none

    @property
    def is_full(self) -> bool:
        return self._full_since is not None

    def tick(self, now_ms: int, ticked_ms: int, *, is_full: bool) -> None:
        """
        Record whether the journal is full.  Start over if FULL_MS have passed since the last tick, `ticked_ms`.
        """
        if not is_full:
            self._full_since, self._attempts = None, 0
        elif self._full_since is None or now_ms - ticked_ms >= FULL_MS:
            self._full_since, self._attempts = now_ms, 0

    def is_yield_due(self, now_ms: int) -> bool:
        """Return whether to ask the next voter to campaign: every FULL_MS, while the journal stays full."""
        return self._full_since is not None and now_ms - self._full_since >= FULL_MS * (self._attempts + 1)

    def next_successor(self, able: Sequence[ReplicaKey]) -> ReplicaKey | None:
        """Return the next voter in `able`, in round-robin order; None if `able` is empty."""
        attempt = self._attempts
        self._attempts += 1
        return able[attempt % len(able)] if able else None
