"""ReplicaReleases: asks the leaders of shards that are no longer planned on this broker whether it may close them.

    the image does not name this broker ─▶ ReleaseRequest, every 5 s ─▶ Released: the shard table closes the replica

A leader answers only once the membership without this broker is committed (`raft/replica`).  Until then it has other
members catch up, and may need the entries or the vote of this replica.
"""

from typing import Final

from tidemill.broker.machine import Machine
from tidemill.broker.peers.cluster import Cluster
from tidemill.broker.shards.shard_table import ShardTable
from tidemill.metadata.image import ClusterImage
from tidemill.model.shard import METADATA_SHARD
from tidemill.raft.messages import ReleaseRequest

ASK_MS: Final = 5_000


class ReplicaReleases:
    def __init__(self, machine: Machine, shard_table: ShardTable, cluster: Cluster) -> None:
        self._machine = machine
        self._shard_table = shard_table
        self._cluster = cluster
        self._asked_at = 0
        self._planned: ClusterImage | None = None  # all shards that are open here are planned here by this image

    def tick(self, image: ClusterImage) -> None:
        now_ms = self._machine.clock.monotonic_ms()
        if image is self._planned or now_ms - self._asked_at < ASK_MS:
            return
        self._asked_at = now_ms
        self._planned = image  # reset below if a shard is not planned
        for shard_id, shard in self._shard_table.shards.items():
            planned = image.shards.get(shard_id)
            if planned is None or self._cluster.me in planned.replicas or shard_id == METADATA_SHARD:
                continue
            self._planned = None
            leader = self._cluster.leaders.leader_key(shard_id)
            if leader is not None and leader != self._cluster.me:
                self._cluster.send(shard_id, leader, ReleaseRequest(term=shard.replica.term))
