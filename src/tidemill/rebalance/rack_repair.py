"""RACK: moves replicas that share a rack to a rack that has none, for example when that rack is back."""

from tidemill.metadata.image import Shard
from tidemill.model.broker_id import ReplicaKey
from tidemill.model.move_reason import Reason
from tidemill.rebalance.draft import Draft
from tidemill.rebalance.sentences import counted
from tidemill.rebalance.slices import Slices


def repair_racks(draft: Draft) -> Slices[None]:
    """Plan one move for each shard with a rack that has two replicas more than a rack that can take one.

    What a user chose stays, whatever the racks.  Where every broker of the other rack is full, the move waits, as a
    refusal.
    """
    for shard_id in draft.index.crowded:
        if not draft.is_busy(shard_id) and draft.reason_of(shard_id) is not Reason.USER:
            shard = draft.image.shards[shard_id]
            on_rack = draft.targets.rack_counts(shard.replicas)
            most = max(on_rack.values())
            source = _most_loaded(draft, shard, most)
            rack = draft.brokers.racks.of.get(source.broker_id)
            where = "brokers without a rack" if rack is None else f"rack {rack}"
            draft.move(
                shard,
                source,
                Reason.RACK,
                f"{where} has {most} of its {counted(len(shard.replicas), 'replica')}",
                on_rack_max=most - 2,
            )
        if draft.work.fills_slice(4):
            yield


def _most_loaded(draft: Draft, shard: Shard, most: int) -> ReplicaKey:
    """Return the replica to move: on the most used rack, not the preferred leader, on the broker that carries most."""
    on_rack = draft.targets.rack_counts(shard.replicas)
    of, carried = draft.brokers.racks.of, draft.accounts.carried
    movable = [replica for replica in shard.replicas if on_rack[of.get(replica.broker_id)] == most]
    return max(movable, key=lambda r: (r != shard.replicas[0], carried.get(r.broker_id, 0), -r.broker_id))
