"""Decides CreatePartitions.  New partitions form new shards, so existing partitions do not move."""

from collections import Counter
from dataclasses import dataclass

from tidemill.metadata.metadata_records import Record, ShardRecord
from tidemill.metadata.placement import Loads
from tidemill.metadata.replicas import loads_of, plan_assigned, plan_automatic, reason_records, shard_records
from tidemill.metadata.result import DecisionContext, Problem, Result
from tidemill.metadata.topics import PARTITIONS_MAX
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.errors import KafkaError
from tidemill.model.shard import ShardId


@dataclass(frozen=True, slots=True, kw_only=True)
class MorePartitions:
    name: str
    partition_count: int  # the new total, including the existing partitions
    assignments: tuple[tuple[BrokerId, ...], ...] | None = None  # brokers per new partition; None: chosen by load


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitions:
    topics: tuple[MorePartitions, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownTopic:
    name: str
    problem: Problem | None = None


def create_partitions(context: DecisionContext, command: CreatePartitions) -> Result[tuple[GrownTopic, ...]]:
    """Decide each topic separately: a rejected topic does not affect the others."""
    times_named = Counter(topic.name for topic in command.topics)
    records: list[Record] = []
    answers: dict[str, GrownTopic] = {}
    added = shard_count = 0
    loads = loads_of(context.image)
    for topic in command.topics:
        if times_named[topic.name] > 1:
            problem = Problem(errors.INVALID_REQUEST, f"topic {topic.name!r} is named more than once")
            answers[topic.name] = GrownTopic(name=topic.name, problem=problem)
            continue
        try:
            made = _new_shards(context, loads, topic, ShardId(context.image.next_shard_id + shard_count))
            partition_count = sum(record.partition_count for record in made)
            if added + partition_count > PARTITIONS_MAX:
                raise KafkaError(
                    errors.INVALID_PARTITIONS,
                    f"one request creates at most {PARTITIONS_MAX} partitions; send the rest later",
                )
            records += made
            if topic.assignments is not None:
                records += reason_records(context.image, made)
            shard_count += len(made)
            added += partition_count
            for record in made:
                loads.add(record.initial_voters)
            answers[topic.name] = GrownTopic(name=topic.name)
        except KafkaError as refused:
            problem = Problem(refused.error_code, refused.message)
            answers[topic.name] = GrownTopic(name=topic.name, problem=problem)
    return Result(() if command.validate_only else tuple(records), tuple(answers.values()))


def _new_shards(
    context: DecisionContext, loads: Loads, wanted: MorePartitions, next_shard_id: ShardId
) -> tuple[ShardRecord, ...]:
    image = context.image
    topic = image.topic(wanted.name)
    if topic is None:
        raise KafkaError(errors.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {wanted.name!r}")
    if topic.is_internal:
        raise KafkaError(errors.INVALID_TOPIC_EXCEPTION, f"topic {topic.name!r} is internal; its partitions are fixed")
    added = wanted.partition_count - topic.partition_count
    if added <= 0:
        raise KafkaError(
            errors.INVALID_PARTITIONS,
            f"topic {topic.name!r} has {topic.partition_count} partitions; {wanted.partition_count} would not be more",
        )
    if wanted.partition_count > PARTITIONS_MAX:
        raise KafkaError(
            errors.INVALID_PARTITIONS,
            f"a topic has at most {PARTITIONS_MAX} partitions; {wanted.partition_count} were asked for",
        )
    replication_factor = image.replication_factor(topic)
    if wanted.assignments is None:
        plans = plan_automatic(
            context,
            loads,
            first_partition=topic.partition_count,
            partition_count=added,
            replication_factor=replication_factor,
        )
    else:
        if len(wanted.assignments) != added:
            raise KafkaError(
                errors.INVALID_REPLICA_ASSIGNMENT,
                f"{added} partitions are to be added, but {len(wanted.assignments)} assignments are given",
            )
        plans = plan_assigned(context, first_partition=topic.partition_count, assignments=wanted.assignments)
        if len(plans[0].voters) != replication_factor:
            raise KafkaError(
                errors.INVALID_REPLICA_ASSIGNMENT,
                f"topic {topic.name!r} has replication factor {replication_factor}, "
                f"but {len(plans[0].voters)} replicas are assigned",
            )
    return shard_records(plans, topic_id=topic.topic_id, next_shard_id=next_shard_id)
