"""The check before a drain: which shards of a broker have no place elsewhere, and why.

A drain that cannot end must not begin: with three brokers and a replication factor of three it would wait for ever.
"""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from tidemill.metadata.image import ClusterImage
from tidemill.model.broker_id import BrokerId
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId
from tidemill.rebalance.broker_set import BrokerSet
from tidemill.rebalance.draft import Draft, begin_draft, may_shrink, replica_on
from tidemill.rebalance.policy import Policy
from tidemill.rebalance.shard_index import ShardIndex
from tidemill.rebalance.slices import Slices
from tidemill.rebalance.view import View


class Obstacle(StrEnum):
    REPLICAS = "replicas"  # too few brokers for the replication factor
    DISK = "disk"  # each broker that is free for it would be too full
    FIGURES = "figures"  # no leader has told its size, or its members cannot change now
    RACK = "rack"  # there is a place, but the replicas would be on fewer racks: a warning


class NoPlace(NamedTuple):
    shard_id: ShardId
    obstacle: Obstacle
    sentence: str


def check_drain(
    image: ClusterImage, view: View, policy: Policy, now_ms: int, index: ShardIndex, broker_id: BrokerId
) -> Slices[tuple[NoPlace, ...]]:
    """Return the shards that a drain of the broker would leave behind, and those that it would put on fewer racks.

    Those that other drains would leave behind because of this one count as well: two brokers of four may each be
    emptied, but not both, if shards have three replicas.

    All shards are placed on paper, one after the other, without limits on copies.  Raises KeyError if the view has no
    such broker.  It runs between two passes of the planner, like a pass.
    """
    drained = replace(view.brokers[broker_id], drain=Drain.ALL)
    after = replace(view, brokers={**view.brokers, broker_id: drained})
    brokers = BrokerSet(image, after)
    if view.brokers[broker_id].drain is Drain.NONE:
        brokers.drained_on_paper(broker_id)
    others = [it for it in brokers.drained if it != broker_id and brokers.known[it].presence is not Presence.GONE]
    yield
    draft = yield from begin_draft(image, after, policy, now_ms, index, brokers)
    yield
    found = yield from _without_place(draft, [broker_id])
    stuck = [it for it in (yield from _without_place(draft, others)) if it.obstacle is not Obstacle.RACK]
    if stuck:
        draft = yield from begin_draft(image, view, policy, now_ms, index, BrokerSet(image, view))
        known = {it.shard_id for it in (yield from _without_place(draft, others)) if it.obstacle is not Obstacle.RACK}
        mine = {it.shard_id for it in found}.union(known)
        found += [it for it in stuck if it.shard_id not in mine]
    return tuple(found)


def _without_place(draft: Draft, broker_ids: Sequence[BrokerId]) -> Slices[list[NoPlace]]:
    """Place all shards of some brokers elsewhere, on paper; return those that have no place, or fewer racks."""
    found = []
    for broker_id in broker_ids:
        for shard_id in draft.index.carried(broker_id):
            if shard_id in draft.image.shards:
                problem = _problem(draft, shard_id, broker_id)
                if problem is not None:
                    found.append(problem)
            if draft.work.fills_slice(4):
                yield
    return found


def _problem(draft: Draft, shard_id: ShardId, broker_id: BrokerId) -> NoPlace | None:
    shard, figures = draft.planned(shard_id), draft.view.shards.get(shard_id)
    source = replica_on(shard, broker_id)
    staying = [replica for replica in shard.replicas if replica != source]
    problem = draft.problem(shard, figures, (source,))
    if problem is not None or figures is None:
        return NoPlace(shard_id, Obstacle.FIGURES, f"shard {shard_id}: {problem}")
    choice = draft.targets.choose(staying, figures.size, without=(broker_id,), is_limited=False)
    draft.work.add(choice.looked_at)
    if may_shrink(shard, choice):
        draft.drop(shard, figures, source, Reason.DRAIN, "")
        return None
    if choice.chosen is None:
        obstacle = Obstacle.DISK if choice.full else Obstacle.REPLICAS
        why = draft.targets.problem(choice, shard.replicas, figures.size)
        return NoPlace(shard_id, obstacle, f"shard {shard_id} has no place: {why}")
    draft.step(shard, figures, {source: choice.chosen}, Reason.DRAIN, "")
    before = len(draft.targets.rack_counts(shard.replicas))
    after = len(draft.targets.rack_counts((*staying, choice.chosen)))
    if after < before:
        sentence = f"shard {shard_id} would be on {after} of {before} racks: broker {choice.chosen.broker_id} takes it"
        return NoPlace(shard_id, Obstacle.RACK, sentence)
    return None
