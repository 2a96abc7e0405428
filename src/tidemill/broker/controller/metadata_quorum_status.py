"""MetadataQuorumStatus: the progress of each replica of the metadata shard, as its leader sees it.

Tidemill's followers do not fetch as Kafka's do, so the timestamps have a different meaning: the last fetch is the last
tick at which the follower's broker was alive, and a follower is caught up if all committed entries are on its disk.
"""

from dataclasses import dataclass
from typing import Final

from tidemill.broker.machine import Machine
from tidemill.broker.peers.cluster import Cluster
from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.replica import Replica

NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class QuorumMember:
    """The progress of one voter or learner of the metadata shard.  Times are wall-clock times in ms, or NEVER."""

    key: ReplicaKey
    end_index: int  # the first log index that is not on the replica's disk
    heard_at: int
    caught_up_at: int


class MetadataQuorumStatus:
    def __init__(self, machine: Machine, cluster: Cluster) -> None:
        self._clock = machine.clock
        self._cluster = cluster
        self._heard_at: dict[ReplicaKey, int] = {}
        self._caught_up_at: dict[ReplicaKey, int] = {}

    def tick(self, replica: Replica) -> None:
        """Update the times.  `replica` is this broker's replica of the metadata shard.  Called a few times a second."""
        if not replica.leads:
            self._heard_at.clear()
            self._caught_up_at.clear()
            return
        now_ms = self._clock.wall_ms()
        for voter, match_index in replica.matches.items():
            if self._cluster.is_alive(voter):
                self._heard_at[voter] = now_ms
                if match_index >= replica.commit_index:
                    self._caught_up_at[voter] = now_ms

    def members(self, replica: Replica, keys: tuple[ReplicaKey, ...]) -> list[QuorumMember]:
        """Return the progress of these voters or learners.  Call it only while `replica` is the leader."""
        matches, now_ms = replica.matches, self._clock.wall_ms()
        return [
            QuorumMember(key, replica.last_index + 1, now_ms, now_ms)
            if key == replica.me
            else QuorumMember(
                key,
                matches.get(key, 0) + 1,
                self._heard_at.get(key, NEVER),
                self._caught_up_at.get(key, NEVER),
            )
            for key in keys
        ]
