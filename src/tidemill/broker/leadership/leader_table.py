"""Who leads what: this broker's own table, which others are told as it changes, and what they have told of theirs.

All of it is a hint.  Two brokers may believe that they lead a shard: the higher term is right, and a term that was once
known is never followed by a lower one.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.shard import ShardId


class Leader(NamedTuple):
    """One pair: clients are never told a leader with another's epoch."""

    broker_id: BrokerId
    term: int  # confirmed: an entry of it has committed


class LeaderTable:
    """`version` counts what changed in this broker's own part."""

    def __init__(self, me: ReplicaKey) -> None:
        self.version = 0
        self._me = me
        self._own: dict[ShardId, tuple[int, int]] = {}  # (term or 0, version of the change), oldest change first
        self._told: dict[ReplicaKey, dict[ShardId, int]] = {}
        # With whose word that is: a broker may have another directory by now.
        self._leaders: dict[ShardId, tuple[ReplicaKey, Leader]] = {}
        self._terms: dict[ShardId, int] = {}  # the highest that was ever known

    def leader(self, shard_id: ShardId) -> Leader | None:
        known = self._leaders.get(shard_id)
        return None if known is None else known[1]

    def said_by(self, shard_id: ShardId) -> ReplicaKey | None:
        """The leader, with the directory that it has."""
        known = self._leaders.get(shard_id)
        return None if known is None else known[0]

    def led_counts(self) -> Counter[BrokerId]:
        """How many shards each broker leads."""
        return Counter(voter.broker_id for voter, _ in self._leaders.values())

    def deleted(self, shard_id: ShardId) -> None:
        """Its topic is gone, and shard ids are not used again: nobody needs to be told, or held to its terms."""
        self._own.pop(shard_id, None)
        self._leaders.pop(shard_id, None)
        for terms in (self._terms, *self._told.values()):
            terms.pop(shard_id, None)

    # This broker's own.

    def leads(self, shard_id: ShardId, term: int) -> None:
        """This broker leads the shard, and `term` is confirmed; 0: not any more."""
        self.version += 1
        self._own.pop(shard_id, None)
        self._own[shard_id] = (term, self.version)
        self._set(self._me, shard_id, term)

    def changes_since(self, version: int) -> list[tuple[ShardId, int]]:
        """(Shard, term or 0), for one who knows this table as it was at `version`; 0: for one who knows nothing."""
        changes = []
        for shard_id, (term, changed_at) in reversed(self._own.items()):
            if changed_at <= version:
                break
            if term or version:
                changes.append((shard_id, term))
        return changes

    # Others'.

    def told(self, voter: ReplicaKey, changes: Iterable[tuple[ShardId, int]], *, is_whole: bool) -> None:
        """What another broker says of its own table."""
        if is_whole:
            self.forget(voter)
        table = self._told.setdefault(voter, {})
        for shard_id, term in changes:
            if term:
                table[shard_id] = term
            else:
                table.pop(shard_id, None)
            self._set(voter, shard_id, term)

    def forget(self, voter: ReplicaKey) -> None:
        """Its link is gone: nobody is sent there until it says again what it leads."""
        for shard_id in self._told.pop(voter, {}):
            self._set(voter, shard_id, 0)

    def _set(self, voter: ReplicaKey, shard_id: ShardId, term: int) -> None:
        if not term:
            if self.said_by(shard_id) == voter:
                del self._leaders[shard_id]
            return
        if term < self._terms.get(shard_id, 0):
            return  # it has not heard of its successor yet
        self._terms[shard_id] = term
        self._leaders[shard_id] = voter, Leader(voter.broker_id, term)
