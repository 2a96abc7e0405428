"""The replicas of the metadata shard, as its leader sees them: how far each has come, and when it was heard of.

There are no fetches: a follower is heard while its broker is, and has caught up when its disk holds what was committed
when the leader looked.
"""

from dataclasses import dataclass
from typing import Final

from tidemill.broker.machine import Machine
from tidemill.broker.peers.cluster import Cluster
from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.replica import Replica

NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class Standing:
    """Of one replica; times are wall clock, ms, NEVER while it was not seen so."""

    voter: ReplicaKey
    end_index: int  # the first log index that is not on its disk
    heard_at: int
    caught_up_at: int


class MetadataQuorumStatus:
    def __init__(self, machine: Machine, cluster: Cluster) -> None:
        self._clock = machine.clock
        self._cluster = cluster
        self._heard_at: dict[ReplicaKey, int] = {}
        self._caught_up_at: dict[ReplicaKey, int] = {}

    def tick(self, replica: Replica) -> None:
        """Called a few times a second; of the metadata shard's replica here."""
        if not replica.leads:
            self._heard_at.clear()
            self._caught_up_at.clear()
            return
        now_ms = self._clock.wall_ms()
        for voter, match_index in replica.status().matches.items():
            if self._cluster.is_alive(voter):
                self._heard_at[voter] = now_ms
                if match_index >= replica.commit_index:
                    self._caught_up_at[voter] = now_ms

    def standings(self, replica: Replica, voters: tuple[ReplicaKey, ...]) -> list[Standing]:
        """Only where the replica leads."""
        matches, now_ms = replica.status().matches, self._clock.wall_ms()
        return [
            Standing(voter, replica.last_index + 1, now_ms, now_ms)
            if voter == replica.me
            else Standing(
                voter,
                matches.get(voter, 0) + 1,
                self._heard_at.get(voter, NEVER),
                self._caught_up_at.get(voter, NEVER),
            )
            for voter in voters
        ]
