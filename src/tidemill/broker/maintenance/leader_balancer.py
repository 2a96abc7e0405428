"""LeaderBalancer: transfers the leadership of the shards that this broker leads to their preferred leaders.

It runs every `leader.imbalance.check.interval.seconds` if `auto.leader.rebalance.enable` is set.  A preferred leader
must be alive and nearly caught up, so that the transfer, during which clients have to wait, is short.  The next leader
of a share delivers again what consumers hold; therefore a shard with such records is left to the next check, once.
"""

from collections.abc import Callable, Collection

from tidemill.broker.leadership.leadership_transfers import LeadershipTransfers
from tidemill.broker.machine import Machine
from tidemill.broker.peers.cluster import Cluster
from tidemill.broker.shards.shard_table import ShardTable
from tidemill.metadata.image import ClusterImage
from tidemill.metadata.leadership import imbalance, rebalance_interval_s
from tidemill.model.config_resolution import BrokerLayers
from tidemill.model.shard import ShardId


class LeaderBalancer:
    def __init__(
        self,
        machine: Machine,
        shard_table: ShardTable,
        cluster: Cluster,
        leadership_transfers: LeadershipTransfers,
        layers: Callable[[], BrokerLayers],
        shards_with_locks: Callable[[], Collection[ShardId]],
    ) -> None:
        """`shards_with_locks` returns the shards with records that consumers of share groups hold."""
        self._machine = machine
        self._shard_table = shard_table
        self._cluster = cluster
        self._leadership_transfers = leadership_transfers
        self._layers = layers
        self._shards_with_locks = shards_with_locks
        self._spared: set[ShardId] = set()  # by the last check
        self._checked_at = machine.clock.monotonic_ms()

    def tick(self, image: ClusterImage) -> None:
        now_ms = self._machine.clock.monotonic_ms()
        interval_s = rebalance_interval_s(self._layers())
        if interval_s is None or now_ms - self._checked_at < interval_s * 1_000:
            return
        self._checked_at = now_ms
        me = self._cluster.me.broker_id
        led = {shard_id: me for shard_id, shard in self._shard_table.shards.items() if shard.is_serving}
        moves = imbalance(image, led, self._cluster.eligible_leaders())
        self._spared = {shard_id for shard_id, _ in moves}.intersection(self._shards_with_locks()) - self._spared
        moves = [move for move in moves if move[0] not in self._spared]
        refused = self._leadership_transfers.here(moves)
        if len(moves) > len(refused):
            self._machine.events.event("leadership transferred", shards=len(moves) - len(refused))
