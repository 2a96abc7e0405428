"""Decides which brokers a shard is to have its replicas on: a goal, which the shard's leader approaches step by step.

A goal replaces the one before it, whether that was reached or not.  So a move is cancelled by planning the former
replicas again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.metadata.image import ClusterImage
from tidemill.metadata.metadata_records import ReplicasRecord
from tidemill.metadata.result import DecisionContext, Problem, Result
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, broker_list
from tidemill.model.shard import METADATA_SHARD, ShardId


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReplicas:
    """Plan the replicas of one shard on `brokers`, the preferred leader first."""

    shard_id: ShardId
    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedReplicas:
    problem: Problem | None = None


def plan_replicas(context: DecisionContext, command: PlanReplicas) -> Result[PlannedReplicas]:
    image = context.image
    shard = image.shards.get(command.shard_id)
    if shard is None:
        why = f"there is no shard {command.shard_id}; a deleted topic may have had it"
        return Result((), PlannedReplicas(problem=Problem(errors.UNKNOWN_TOPIC_OR_PARTITION, why)))
    why_not = _refusal(image, command.shard_id, command.brokers)
    if why_not is not None:
        why = f"replicas of shard {command.shard_id} on brokers {list(command.brokers)} are refused: {why_not}"
        return Result((), PlannedReplicas(problem=Problem(errors.INVALID_REPLICA_ASSIGNMENT, why)))
    voters = tuple(image.brokers[broker_id].voter for broker_id in command.brokers)
    records = () if voters == shard.replicas else (ReplicasRecord(command.shard_id, voters),)
    return Result(records, PlannedReplicas())


def _refusal(image: ClusterImage, shard_id: ShardId, brokers: Sequence[BrokerId]) -> str | None:
    if shard_id == METADATA_SHARD:
        return "the cluster places the replicas of its metadata itself"
    if not brokers:
        return "name at least one broker"
    if len({*brokers}) < len(brokers):
        return "a broker is named twice"
    registered = [broker.voter for broker in image.registered()]
    unknown = sorted({*brokers} - {voter.broker_id for voter in registered})
    if unknown:
        return f"broker {unknown[0]} is not in this cluster; its brokers are {broker_list(registered)}"
    return None
