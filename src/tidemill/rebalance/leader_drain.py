"""The leaders of a broker that is drained: to whom it transfers each of its shards.

The planned replicas stay in their order.  So when the drain ends, the leaders come back by the balance of preferred
leaders, and a restart of one broker after the other leaves every leader where it was.
"""

from typing import NamedTuple

from tidemill.metadata.image import ClusterImage
from tidemill.model.broker_id import BrokerId
from tidemill.model.shard import ShardId
from tidemill.rebalance.broker_set import BrokerSet
from tidemill.rebalance.plan import Refusal
from tidemill.rebalance.slices import Slices, Work
from tidemill.rebalance.view import View


class LeaderDrain(NamedTuple):
    transfers: tuple[tuple[ShardId, BrokerId], ...]  # shard, and the broker that is to lead it
    refusals: tuple[Refusal, ...]  # shards that no other broker can lead now


def drain_leaders(image: ClusterImage, view: View, broker_id: BrokerId) -> Slices[LeaderDrain]:
    """Return where the leaderships of a broker go: to the first replica that is in sync and can lead."""
    brokers, work = BrokerSet(image, view), Work()
    transfers, refusals = [], []
    for shard_id, figures in view.shards.items():
        shard = image.shards.get(shard_id)
        if shard is not None and figures.leader == broker_id and figures.membership is not None:
            able = [
                replica.broker_id
                for replica in shard.replicas
                if replica in figures.membership.voters
                and replica.broker_id != broker_id
                and replica.broker_id in figures.in_sync
                and brokers.can_take(replica)
            ]
            if able:
                transfers.append((shard_id, able[0]))
            else:
                why = f"shard {shard_id}: no other replica is in sync on a broker that can lead"
                refusals.append(Refusal(f"shard {shard_id}", why))
        if work.fills_slice():
            yield
    return LeaderDrain(tuple(transfers), tuple(refusals))
