"""LeadershipTransfers: begins leadership transfers of shards that this broker or other brokers lead.

    move (shard, to) ─┬─▶ led by this broker ─▶ shard.transfer_leadership
                      └─▶ led by another broker ─▶ request (`peer/transfer_leadership.py`) ─▶ `here` on that broker

A transfer loses no entries: the leader stops accepting entries, waits until all have committed, and only then lets the
target campaign.
"""

from collections.abc import Callable, Iterable, Sequence

from tidemill.broker.peers.cluster import Cluster
from tidemill.broker.peers.unanswered import Unanswered
from tidemill.broker.shards.shard_table import ShardTable
from tidemill.metadata.image import ClusterImage
from tidemill.model.broker_id import BrokerId
from tidemill.model.shard import ShardId
from tidemill.peer.transfer_leadership import API, Request, Response

Move = tuple[ShardId, BrokerId]


class LeadershipTransfers:
    def __init__(self, shard_table: ShardTable, cluster: Cluster, image: Callable[[], ClusterImage]) -> None:
        self._shard_table = shard_table
        self._cluster = cluster
        self._image = image

    def here(self, moves: Iterable[Move]) -> list[ShardId]:
        """Begin transfers of shards that this broker leads; return the shards that cannot be transferred."""
        return [shard_id for shard_id, to in moves if not self._begin(shard_id, to)]

    def anywhere(self, moves: Sequence[Move], refused: Callable[[Sequence[ShardId]], None]) -> None:
        """
        Begin transfers of shards, regardless of which brokers lead them.

        `refused` is called with the shards that cannot be transferred, possibly several times.
        """
        by_leader: dict[BrokerId, list[Move]] = {}
        unled = []
        for shard_id, to in moves:
            leader = self._cluster.reported_leader(shard_id)
            if leader is None:
                unled.append(shard_id)
            else:
                by_leader.setdefault(leader, []).append((shard_id, to))
        for broker_id, asked in by_leader.items():
            if broker_id == self._cluster.me.broker_id:
                unled += self.here(asked)
            else:
                unled += self._ask(broker_id, asked, refused)
        if unled:
            refused(unled)

    def begin(self, moves: Sequence[Move]) -> None:
        """Begin transfers that the caller asks for again if they do not happen, whether they are refused or fail."""
        self.anywhere(moves, _ignored)

    def _begin(self, shard_id: ShardId, to: BrokerId) -> bool:
        shard = self._shard_table.shards.get(shard_id)
        if shard is None or not shard.is_serving:
            return False
        voter = next((voter for voter in shard.replica.voters if voter.broker_id == to), None)
        return voter is not None and shard.transfer_leadership(voter)

    def _ask(
        self, broker_id: BrokerId, moves: list[Move], refused: Callable[[Sequence[ShardId]], None]
    ) -> list[ShardId]:
        """
        Send a broker a request to transfer leadership.  Return all shards in `moves` if the request cannot be sent,
        otherwise none.
        """
        request = Request(moves=[Request.Move(shard_id=shard_id, to=to) for shard_id, to in moves])

        def answered(outcome: Response | Unanswered) -> None:
            if not isinstance(outcome, Unanswered) and outcome.refused:
                refused([ShardId(shard_id) for shard_id in outcome.refused])

        broker = self._image().brokers.get(broker_id)
        if broker is not None and self._cluster.peers.ask(broker.voter, API, request, answered):
            return []
        return [shard_id for shard_id, _ in moves]


def _ignored(_: Sequence[ShardId]) -> None:
    """Do nothing: the leader table shows which transfers have happened."""
