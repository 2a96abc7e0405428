"""Which replicas of the shards that are led here are out of sync; others are told, and tell their clients, as in Kafka.

A replica is in sync from the moment it has, on its disk, all that was committed a tick before, until that has not been
so for `LAG_MS`.  One that does not vote, is damaged, installs a snapshot, or is on a broker that is not alive is not,
whatever it has.  Only the leader knows: who lags is told of what it lacks last.
"""

from collections.abc import Callable
from typing import Final

from tidemill.metadata.image import ClusterImage
from tidemill.model.broker_id import BrokerId, Voter
from tidemill.model.clock import Clock
from tidemill.model.shard import ShardId
from tidemill.raft.progress import Pace
from tidemill.raft.replica import Replica
from tidemill.shard.shard import Shard

LAG_MS: Final = 30_000  # Kafka's `replica.lag.time.max.ms`

Lagging = tuple[ShardId, BrokerId]


class _Led:
    """One shard, while it is led here in one term."""

    __slots__ = ("commit_index", "near_at", "term")

    def __init__(self, term: int, commit_index: int) -> None:
        self.term = term
        self.commit_index = commit_index  # at the last look
        self.near_at: dict[Voter, int] = {}  # when each replica last had what was committed a look before


class ReplicaLag:
    def __init__(
        self,
        *,
        image: Callable[[], ClusterImage],
        shards: Callable[[], dict[ShardId, Shard]],
        is_alive: Callable[[Voter], bool],
        clock: Clock,
    ) -> None:
        self._image = image
        self._shards = shards
        self._is_alive = is_alive
        self._clock = clock
        self._led: dict[ShardId, _Led] = {}
        self.lagging: frozenset[Lagging] = frozenset()
        """As of the last look."""

    def look(self) -> tuple[Lagging, ...]:
        """Called at each tick; ascending."""
        now_ms = self._clock.monotonic_ms()
        planned = self._image().shards
        shards = self._shards()
        lagging: list[Lagging] = []
        for shard_id in [it for it in self._led if it not in shards]:
            del self._led[shard_id]
        for shard_id, shard in shards.items():
            replica = shard.replica
            plan = planned.get(shard_id)
            if not replica.leads or plan is None:
                self._led.pop(shard_id, None)
                continue
            led = self._led.get(shard_id)
            if led is None or led.term != replica.term:
                led = self._led[shard_id] = _Led(replica.term, replica.commit_index)
            for voter in plan.replicas:
                if voter != replica.me and not self._is_in_sync(led, replica, voter, now_ms):
                    lagging.append((shard_id, voter.broker_id))
            led.commit_index = replica.commit_index
        self.lagging = frozenset(lagging)
        return tuple(sorted(lagging))

    def _is_in_sync(self, led: _Led, replica: Replica, voter: Voter, now_ms: int) -> bool:
        assert replica.replication is not None, "a leader replicates"
        progress = replica.replication.members.get(voter)
        counts = progress is not None and progress.promised is None and progress.pace is not Pace.SNAPSHOT
        if progress is None or not counts or voter not in replica.voters or not self._is_alive(voter):
            led.near_at.pop(voter, None)
            return False
        if progress.match_index >= led.commit_index:
            led.near_at[voter] = now_ms
        near_at = led.near_at.get(voter)
        return near_at is not None and now_ms - near_at <= LAG_MS
