"""The leader table: the shards that this broker leads, and the shards that its peers report leading.

Each broker sends the changes to its own part to its peers.  All entries are hints.  If two brokers both believe that
they lead a shard, the higher term wins, and a lower term never replaces a known one.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.shard import ShardId


class Leader(NamedTuple):
    """A leader and its term as one pair, so that clients never get a leader with another leader's epoch."""

    broker_id: BrokerId
    term: int  # confirmed: an entry of this term has committed


class LeaderTable:
    """The leader table of one broker.  `version` counts the changes to the broker's own part."""

    def __init__(self, me: ReplicaKey) -> None:
        self.version = 0
        self.on_change: Callable[[ShardId], None] = _ignore  # called when `leader_key` of a shard has changed
        self._me = me
        # Each shard's (term, version of the change), oldest change first; term 0: this broker does not lead the shard.
        self._own: dict[ShardId, tuple[int, int]] = {}
        self._reported: dict[ReplicaKey, dict[ShardId, int]] = {}
        # Each leader has the replica key that reported it, because a broker id may get a new directory.
        self._leaders: dict[ShardId, tuple[ReplicaKey, Leader]] = {}
        self._terms: dict[ShardId, int] = {}  # the highest term of each shard that is known so far

    def leader(self, shard_id: ShardId) -> Leader | None:
        known = self._leaders.get(shard_id)
        return None if known is None else known[1]

    def leader_key(self, shard_id: ShardId) -> ReplicaKey | None:
        """Return the replica key that reported itself as the shard's leader."""
        known = self._leaders.get(shard_id)
        return None if known is None else known[0]

    def led_counts(self) -> Counter[BrokerId]:
        """Return how many shards each broker leads."""
        return Counter(voter.broker_id for voter, _ in self._leaders.values())

    def deleted(self, shard_id: ShardId) -> None:
        """Forget a shard of a deleted topic; shard ids are never reused."""
        self._own.pop(shard_id, None)
        self._leaders.pop(shard_id, None)
        for terms in (self._terms, *self._reported.values()):
            terms.pop(shard_id, None)

    # Methods for this broker's own part of the table.

    def leads(self, shard_id: ShardId, term: int) -> None:
        """
        Record that this broker leads the shard with the confirmed `term` or, if `term` is 0, that it does not lead it.
        """
        self.version += 1
        self._own.pop(shard_id, None)
        self._own[shard_id] = (term, self.version)
        self._set(self._me, shard_id, term)

    def changes_since(self, version: int) -> list[tuple[ShardId, int]]:
        """
        Return (shard, term) for each change after `version`; term 0 means that this broker no longer leads the shard.
        `version` is 0 for a peer that has not received this table yet.
        """
        changes = []
        for shard_id, (term, changed_at) in reversed(self._own.items()):
            if changed_at <= version:
                break
            if term or version:
                changes.append((shard_id, term))
        return changes

    # Methods for the parts of the table that peers report.

    def apply_report(self, voter: ReplicaKey, changes: Iterable[tuple[ShardId, int]], *, is_whole: bool) -> None:
        """
        Apply the changes that a peer reports to its own part of the table.  If `is_whole`, the changes replace
        everything that was known about this part.
        """
        if is_whole:
            self.forget(voter)
        table = self._reported.setdefault(voter, {})
        for shard_id, term in changes:
            if term:
                table[shard_id] = term
            else:
                table.pop(shard_id, None)
            self._set(voter, shard_id, term)

    def forget(self, voter: ReplicaKey) -> None:
        """Forget the part of the table reported by a peer whose connection is lost.  The peer reports it again on a new
        connection.
        """
        for shard_id in self._reported.pop(voter, {}):
            self._set(voter, shard_id, 0)

    def _set(self, voter: ReplicaKey, shard_id: ShardId, term: int) -> None:
        if not term:
            if self.leader_key(shard_id) == voter:
                del self._leaders[shard_id]
                self.on_change(shard_id)
            return
        if term < self._terms.get(shard_id, 0):
            return  # the reporting leader is outdated, and does not know about its successor yet
        former = self.leader_key(shard_id)
        self._terms[shard_id] = term
        self._leaders[shard_id] = voter, Leader(voter.broker_id, term)
        if former != voter:
            self.on_change(shard_id)


def _ignore(_shard_id: ShardId) -> None:
    """Do nothing: the default for `on_change`."""
