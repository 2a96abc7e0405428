"""Which replicas here have not got what their leaders had committed: others count them out of sync, as in Kafka.

A replica is in sync from the moment it has all that a leader whom it hears had committed a tick before, until that has
not been so for `LAG_MS`.  One that does not vote, installs a snapshot or is damaged is not, whatever it has.
"""

from collections.abc import Callable
from typing import Final

from tidemill.model.broker_id import Voter
from tidemill.model.clock import Clock
from tidemill.model.shard import ShardId
from tidemill.raft.replica import Replica
from tidemill.shard.shard import Shard

LAG_MS: Final = 30_000  # Kafka's `replica.lag.time.max.ms`


class ReplicaLag:
    def __init__(
        self, *, shards: Callable[[], dict[ShardId, Shard]], is_alive: Callable[[Voter], bool], clock: Clock
    ) -> None:
        self._shards = shards
        self._is_alive = is_alive
        self._clock = clock
        self._told: dict[ShardId, int] = {}  # what the leader had committed at the last look
        self._near_at: dict[ShardId, int] = {}  # when the replica had last got what was told before
        self._behind: frozenset[ShardId] = frozenset()

    def is_behind(self, shard_id: ShardId) -> bool:
        """As of the last look; a shard that is not open here was not looked at."""
        return shard_id in self._behind

    def look(self) -> tuple[ShardId, ...]:
        """Called at each tick; the shards whose replicas here are out of sync, ascending."""
        now_ms = self._clock.monotonic_ms()
        shards = self._shards()
        for gone in self._told.keys() - shards.keys():
            self._told.pop(gone)
            self._near_at.pop(gone, None)
        behind = [it for it, shard in shards.items() if not self._is_in_sync(it, shard.replica, now_ms)]
        self._behind = frozenset(behind)
        return tuple(sorted(behind))

    def _is_in_sync(self, shard_id: ShardId, replica: Replica, now_ms: int) -> bool:
        told = self._told.get(shard_id)
        self._told[shard_id] = replica.told_commit_index
        if replica.is_damaged or replica.installing is not None or replica.me not in replica.voters:
            self._near_at.pop(shard_id, None)
            self._told[shard_id] = 0  # it has everything to hear anew
            return False
        has_it = told and min(replica.match_index, replica.durable_index) >= told
        if replica.leads or (has_it and replica.leader is not None and self._is_alive(replica.leader)):
            self._near_at[shard_id] = now_ms
        near_at = self._near_at.get(shard_id)
        return near_at is not None and now_ms - near_at <= LAG_MS
