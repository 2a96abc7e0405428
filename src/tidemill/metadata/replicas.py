"""Who shall carry new partitions: what the user said, checked, or what the controller chooses."""

from collections.abc import Sequence

from tidemill.metadata.image import ClusterImage
from tidemill.metadata.metadata_records import ShardRecord
from tidemill.metadata.placement import ShardPlan, place, place_as_told
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, Voter
from tidemill.model.errors import KafkaError
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId


def plan_chosen(
    image: ClusterImage, *, first_partition: int, partition_count: int, replication_factor: int
) -> tuple[ShardPlan, ...]:
    """KafkaError (INVALID_REPLICATION_FACTOR) when there are too few brokers."""
    if replication_factor < 1:
        raise KafkaError(
            errors.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} must be 1 or more, or -1 for the default",
        )
    brokers = [broker.voter for _, broker in sorted(image.brokers.items())]
    if replication_factor > len(brokers):
        count = f"{len(brokers)} broker" if len(brokers) == 1 else f"{len(brokers)} brokers"
        raise KafkaError(
            errors.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} needs {replication_factor} brokers, and this cluster has {count}",
        )
    return place(
        first_partition=first_partition,
        partition_count=partition_count,
        replication_factor=replication_factor,
        brokers=brokers,
        turn=image.next_shard_id,
    )


def plan_told(
    image: ClusterImage, *, first_partition: int, assignments: Sequence[Sequence[BrokerId]]
) -> tuple[ShardPlan, ...]:
    """KafkaError (INVALID_REPLICA_ASSIGNMENT) when the assignments cannot be followed."""
    voters = []
    for partition, broker_ids in enumerate(assignments, first_partition):
        problem = _assignment_problem(image, broker_ids, len(assignments[0]))
        if problem:
            raise KafkaError(errors.INVALID_REPLICA_ASSIGNMENT, f"the assignment of partition {partition} {problem}")
        voters.append(tuple(_voter(image, broker_id) for broker_id in broker_ids))
    return place_as_told(first_partition=first_partition, assignments=voters)


def shard_records(plans: Sequence[ShardPlan], *, topic_id: TopicId, next_shard_id: ShardId) -> tuple[ShardRecord, ...]:
    return tuple(
        ShardRecord(ShardId(shard_id), topic_id, plan.first_partition, plan.partition_count, plan.voters)
        for shard_id, plan in enumerate(plans, next_shard_id)
    )


def _assignment_problem(image: ClusterImage, broker_ids: Sequence[BrokerId], replication_factor: int) -> str | None:
    if not broker_ids:
        return "names no broker"
    if len(set(broker_ids)) != len(broker_ids):
        return "names a broker twice"
    if len(broker_ids) != replication_factor:
        return f"names {len(broker_ids)} brokers, and that of the first one names {replication_factor}"
    unknown = [broker_id for broker_id in broker_ids if broker_id not in image.brokers]
    if unknown:
        return f"names broker {unknown[0]}, which is not in this cluster ({_brokers_text(image)})"
    return None


def _brokers_text(image: ClusterImage) -> str:
    return "brokers: " + ", ".join(str(broker_id) for broker_id in sorted(image.brokers))


def _voter(image: ClusterImage, broker_id: BrokerId) -> Voter:
    return image.brokers[broker_id].voter
