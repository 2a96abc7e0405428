"""Plans the replicas of new partitions: checks the user's assignments or chooses the brokers."""

from collections.abc import Sequence

from tidemill.metadata.feature_levels import ELASTIC_CLUSTER
from tidemill.metadata.image import ClusterImage
from tidemill.metadata.metadata_records import ReplicasRecord, ShardRecord
from tidemill.metadata.placement import Candidate, Loads, ShardPlan, place, place_as_assigned
from tidemill.metadata.result import DecisionContext
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.errors import KafkaError
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId


def candidates_of(context: DecisionContext) -> list[Candidate]:
    """Return the brokers that can carry replicas: every registered broker, including those to be chosen last."""
    return [
        Candidate(broker.voter, broker.rack, context.is_live(broker.broker_id), broker.takes_replicas)
        for broker in context.image.registered()
    ]


def loads_of(image: ClusterImage) -> Loads:
    return Loads(shard.replicas for shard in image.shards.values())


def plan_automatic(
    context: DecisionContext, loads: Loads, *, first_partition: int, partition_count: int, replication_factor: int
) -> tuple[ShardPlan, ...]:
    """Choose the replicas of new partitions.

    A broker that is gone or drained is chosen only if too few others are live, and a broker that is down only if too
    few brokers are.

    Raises KafkaError (INVALID_REPLICATION_FACTOR) if `replication_factor` is less than 1 or exceeds the number of
    brokers in the cluster.
    """
    if replication_factor < 1:
        raise KafkaError(
            errors.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} is refused: it must be 1 or more, or -1 for the default",
        )
    candidates = candidates_of(context)
    if replication_factor > len(candidates):
        count = f"{len(candidates)} broker" if len(candidates) == 1 else f"{len(candidates)} brokers"
        raise KafkaError(
            errors.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} needs {replication_factor} brokers, but this cluster has {count}",
        )
    return place(
        first_partition=first_partition,
        partition_count=partition_count,
        replication_factor=replication_factor,
        candidates=candidates,
        loads=loads,
    )


def plan_assigned(
    context: DecisionContext, *, first_partition: int, assignments: Sequence[Sequence[BrokerId]]
) -> tuple[ShardPlan, ...]:
    """Plan shards from the user's assignments.  Raises KafkaError (INVALID_REPLICA_ASSIGNMENT) for an invalid one."""
    image = context.image
    voters = []
    for partition, broker_ids in enumerate(assignments, first_partition):
        problem = _assignment_problem(context, broker_ids, len(assignments[0]))
        if problem:
            raise KafkaError(errors.INVALID_REPLICA_ASSIGNMENT, f"the assignment of partition {partition} {problem}")
        voters.append(tuple(_voter(image, broker_id) for broker_id in broker_ids))
    return place_as_assigned(first_partition=first_partition, assignments=voters)


def shard_records(plans: Sequence[ShardPlan], *, topic_id: TopicId, next_shard_id: ShardId) -> tuple[ShardRecord, ...]:
    return tuple(
        ShardRecord(ShardId(shard_id), topic_id, plan.first_partition, plan.partition_count, plan.voters)
        for shard_id, plan in enumerate(plans, next_shard_id)
    )


def reason_records(image: ClusterImage, shards: Sequence[ShardRecord]) -> tuple[ReplicasRecord, ...]:
    """Return the records that say that a user chose the replicas of new shards.  Older brokers could not read them."""
    if image.feature_level < ELASTIC_CLUSTER:
        return ()
    return tuple(ReplicasRecord(shard.shard_id, shard.initial_voters, reason=Reason.USER) for shard in shards)


def _assignment_problem(
    context: DecisionContext, broker_ids: Sequence[BrokerId], replication_factor: int
) -> str | None:
    image = context.image
    if not broker_ids:
        return "names no broker"
    if len(set(broker_ids)) != len(broker_ids):
        return "names a broker twice"
    if len(broker_ids) != replication_factor:
        return f"names {len(broker_ids)} brokers, but the first assignment names {replication_factor}"
    registered = {broker.broker_id for broker in image.registered()}
    unknown = [broker_id for broker_id in broker_ids if broker_id not in registered]
    if unknown:
        return f"names broker {unknown[0]}, which is not in this cluster ({_brokers_text(image)})"
    if not any(context.is_live(broker_id) for broker_id in broker_ids):
        return f"names only brokers that are down ({', '.join(map(str, broker_ids))})"
    return None


def _brokers_text(image: ClusterImage) -> str:
    return "brokers: " + ", ".join(str(broker.broker_id) for broker in image.registered())


def _voter(image: ClusterImage, broker_id: BrokerId) -> ReplicaKey:
    return image.brokers[broker_id].voter
