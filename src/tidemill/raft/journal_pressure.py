"""A journal without room for entries, and how a leader yields because of it.

A leader whose journal is full appends to the disks of others and never to its own, so it may not serve what it appends.
It does not campaign while its journal is full, and after FULL_MS it asks one voter after another to campaign, until one
of them leads.  It goes on asking when it has stepped down meanwhile: followers of its last term that did not hear of
that still believe in it, because its broker is alive.
"""

from collections.abc import Sequence
from typing import Final

from tidemill.model.broker_id import ReplicaKey

FULL_MS: Final = 2_000


class JournalPressure:
    """
    Invariant: `_full_since` is the time of the first of an unbroken row of ticks that all found the journal full.
    """

    __slots__ = ("_attempts", "_full_since", "led_term")

    def __init__(self) -> None:
        self._full_since: int | None = None
        self._attempts = 0  # to yield, since then
        self.led_term = 0  # the term that this replica led last, until it hears of another leader; 0: none

    @property
    def is_full(self) -> bool:
        return self._full_since is not None

    def tick(self, now_ms: int, ticked_ms: int, *, is_full: bool) -> None:
        """`ticked_ms` is the time of the tick before: the row is broken when the replica has slept in between."""
        if not is_full:
            self._full_since, self._attempts = None, 0
        elif self._full_since is None or now_ms - ticked_ms >= FULL_MS:
            self._full_since, self._attempts = now_ms, 0

    def is_yield_due(self, now_ms: int) -> bool:
        """Whether to ask the next voter to campaign: every FULL_MS, while the journal stays full."""
        return self._full_since is not None and now_ms - self._full_since >= FULL_MS * (self._attempts + 1)

    def next_successor(self, able: Sequence[ReplicaKey]) -> ReplicaKey | None:
        """Take turns among the voters of `able`; None when it is empty."""
        attempt = self._attempts
        self._attempts += 1
        return able[attempt % len(able)] if able else None
