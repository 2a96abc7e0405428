"""Decides CreateTopics, DeleteTopics, and the creation of internal topics."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from tidemill.metadata.configs import SUGGESTIONS_MAX, check_topic_settings
from tidemill.metadata.growth import internal_replication_factor
from tidemill.metadata.image import ClusterImage, Topic, metric_name
from tidemill.metadata.insync import check_min_insync, replication_warning
from tidemill.metadata.metadata_records import (
    TOPIC_RESOURCE,
    ConfigRecord,
    ConfigResource,
    Record,
    RemoveTopicRecord,
    ShardRecord,
    TopicRecord,
)
from tidemill.metadata.placement import Loads
from tidemill.metadata.replicas import loads_of, plan_assigned, plan_automatic, reason_records, shard_records
from tidemill.metadata.result import DecisionContext, Problem, Result
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.config_resolution import broker_flag, broker_int, broker_value
from tidemill.model.errors import KafkaError
from tidemill.model.internal_topics import is_internal
from tidemill.model.shard import ShardId
from tidemill.model.topic import (
    NO_TOPIC_ID,
    TopicId,
    name_problem,
    new_topic_id,
    topic_id_text,
)
from tidemill.model.topic_kind import kind_of

PARTITIONS_MAX: Final = 10_000  # per topic and per request; Kafka has the same limit per request
DEFAULT: Final = -1  # means the cluster's default partition count or replication factor


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    name: str
    partition_count: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: tuple[tuple[int, tuple[BrokerId, ...]], ...] = ()  # (partition, its brokers); only with DEFAULT counts
    settings: tuple[tuple[str, str | None], ...] = ()  # (key, value); a value of None is rejected, as in Kafka


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics:
    topics: tuple[NewTopic, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """The outcome for one topic.  If there is a `problem`, the fields after it are not set."""

    name: str
    problem: Problem | None = None
    topic_id: TopicId = NO_TOPIC_ID
    partition_count: int = -1
    replication_factor: int = -1
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateInternalTopic:
    """Create an internal topic if it does not exist; the response is the same in both cases."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopics:
    """Delete topics; each is identified by its name or by its id."""

    topics: tuple[str | TopicId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    name: str | None
    topic_id: TopicId | None
    problem: Problem | None = None


def create_topics(context: DecisionContext, command: CreateTopics) -> Result[tuple[CreatedTopic, ...]]:
    """Decide each topic separately: a rejected topic does not affect the others."""
    times_named = Counter(topic.name for topic in command.topics)
    records: list[Record] = []
    answers: list[CreatedTopic] = []
    taken: dict[str, str] = {}  # metric name → topic name, for the topics of this command
    next_shard_id = context.image.next_shard_id
    named_twice: set[str] = set()
    partition_count = 0
    loads = loads_of(context.image)
    warnings: list[str] = []
    for topic in command.topics:
        if times_named[topic.name] > 1:
            if topic.name not in named_twice:
                named_twice.add(topic.name)
                problem = Problem(errors.INVALID_REQUEST, f"topic {topic.name!r} is named more than once")
                answers.append(CreatedTopic(name=topic.name, problem=problem))
            continue
        try:
            _check_new_name(context.image, topic.name, taken)
            made, answer = _plan_topic(
                context, loads, topic, next_shard_id, suggest=len(command.topics) <= SUGGESTIONS_MAX
            )
            check_min_insync(topic.name, answer.settings, answer.replication_factor)
            if partition_count + answer.partition_count > PARTITIONS_MAX:
                raise KafkaError(
                    errors.INVALID_PARTITIONS,
                    f"one request creates at most {PARTITIONS_MAX} partitions; send the rest later",
                )
        except KafkaError as refused:
            answers.append(CreatedTopic(name=topic.name, problem=Problem(refused.error_code, refused.message)))
            continue
        taken[metric_name(topic.name)] = topic.name
        partition_count += answer.partition_count
        records += made
        initialized = [record for record in made if isinstance(record, ShardRecord)]
        for record in initialized:
            loads.add(record.initial_voters)
        next_shard_id = ShardId(next_shard_id + len(initialized))
        warnings += replication_warning(topic.name, answer.replication_factor)
        answers.append(answer)
    if command.validate_only:
        return Result((), tuple(answers))
    return Result(tuple(records), tuple(answers), tuple(warnings))


def create_internal_topic(context: DecisionContext, command: CreateInternalTopic) -> Result[CreatedTopic]:
    known = context.image.topic(command.name)
    if known is not None:
        return Result((), _existing_topic(context.image, known))
    internal = next((topic for topic in context.internal_topics if topic.name == command.name), None)
    if internal is None or internal.keys is None:
        problem = Problem(
            errors.INVALID_TOPIC_EXCEPTION, f"{command.name!r} is not an internal topic that brokers can create"
        )
        return Result((), CreatedTopic(name=command.name, problem=problem))
    layers = context.layers
    topic = NewTopic(
        name=internal.name,
        partition_count=broker_int(layers, internal.keys.partition_count),
        replication_factor=internal_replication_factor(internal, len(context.image.registered()), layers),
    )
    try:
        made, answer = _plan_topic(context, loads_of(context.image), topic, context.image.next_shard_id, suggest=False)
    except KafkaError as refused:
        problem = Problem(refused.error_code, refused.message)
        return Result((), CreatedTopic(name=command.name, problem=problem))
    fixed = {**INTERNAL_TOPIC_SETTINGS, "segment.bytes": str(broker_value(layers, internal.keys.segment_bytes))}
    return Result((*made, *setting_records(topic.name, fixed)), answer)


INTERNAL_TOPIC_SETTINGS: Final = {"cleanup.policy": "compact", "retention.ms": "-1", "retention.bytes": "-1"}
"""Snapshots bound the size of internal topics; retention must not delete records that no snapshot has replaced."""


def delete_topics(context: DecisionContext, command: DeleteTopics) -> Result[tuple[DeletedTopic, ...]]:
    image = context.image
    may_delete = broker_flag(context.layers, "delete.topic.enable")
    records: list[Record] = []
    answers: list[DeletedTopic] = []
    gone: set[TopicId] = set()
    for wanted in command.topics:
        topic = image.topic(wanted) if isinstance(wanted, str) else image.topic_by_id(wanted)
        problem = _deletion_problem(wanted, topic, gone, may_delete=may_delete)
        if problem is None and topic is not None:
            gone.add(topic.topic_id)
            records.append(RemoveTopicRecord(topic.topic_id))
        name = wanted if isinstance(wanted, str) else None
        answers.append(
            DeletedTopic(
                name=topic.name if topic else name,
                topic_id=topic.topic_id if topic else None if isinstance(wanted, str) else wanted,
                problem=problem,
            )
        )
    return Result(tuple(records), tuple(answers))


def setting_records(topic: str, settings: dict[str, str]) -> tuple[ConfigRecord, ...]:
    resource = ConfigResource(TOPIC_RESOURCE, topic)
    return tuple(ConfigRecord(resource, key, value) for key, value in settings.items())


def _deletion_problem(
    wanted: str | TopicId, topic: Topic | None, gone: set[TopicId], *, may_delete: bool
) -> Problem | None:
    if not may_delete:
        return Problem(
            errors.TOPIC_DELETION_DISABLED, "topics cannot be deleted while delete.topic.enable=false; set it to true"
        )
    if topic is None:
        if isinstance(wanted, str):
            return Problem(errors.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {wanted!r}")
        return Problem(errors.UNKNOWN_TOPIC_ID, f"there is no topic with id {topic_id_text(wanted)}")
    if topic.is_internal:
        return Problem(
            errors.INVALID_TOPIC_EXCEPTION, f"topic {topic.name!r} is internal and cannot be deleted by clients"
        )
    if topic.topic_id in gone:
        return Problem(errors.INVALID_REQUEST, f"topic {topic.name!r} is named more than once")
    return None


def _check_new_name(image: ClusterImage, name: str, taken: dict[str, str]) -> None:
    problem = name_problem(name)
    if problem:
        raise KafkaError(errors.INVALID_TOPIC_EXCEPTION, problem)
    if name in image.topics:
        raise KafkaError(errors.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
    if is_internal(name):
        raise KafkaError(
            errors.INVALID_TOPIC_EXCEPTION,
            f"topic name {name!r} is reserved for an internal topic; choose another name",
        )
    alike = image.metric_names.get(metric_name(name)) or taken.get(metric_name(name))
    if alike is not None:
        raise KafkaError(
            errors.INVALID_TOPIC_EXCEPTION,
            f"topic {name!r} differs from topic {alike!r} only in '.' and '_', which metric names cannot tell apart; "
            "choose another name",
        )


def _plan_topic(
    context: DecisionContext, loads: Loads, topic: NewTopic, next_shard_id: ShardId, *, suggest: bool
) -> tuple[tuple[Record, ...], CreatedTopic]:
    settings = check_topic_settings(topic.settings, suggest=suggest)
    if topic.assignments:
        plans = plan_assigned(context, first_partition=0, assignments=_checked_assignments(topic))
    else:
        plans = plan_automatic(
            context,
            loads,
            first_partition=0,
            partition_count=_partition_count(context, topic),
            replication_factor=topic.replication_factor
            if topic.replication_factor != DEFAULT
            else broker_int(context.layers, "default.replication.factor"),
        )
    topic_id = new_topic_id(context.entropy)
    shards = shard_records(plans, topic_id=topic_id, next_shard_id=next_shard_id)
    records: tuple[Record, ...] = (
        TopicRecord(topic_id, topic.name, kind_of(settings)),
        *shards,
        *(reason_records(context.image, shards) if topic.assignments else ()),
        *setting_records(topic.name, settings),
    )
    return records, CreatedTopic(
        name=topic.name,
        topic_id=topic_id,
        partition_count=sum(plan.partition_count for plan in plans),
        replication_factor=len(plans[0].voters),
        settings=settings,
    )


def _partition_count(context: DecisionContext, topic: NewTopic) -> int:
    if topic.partition_count == DEFAULT:
        return broker_int(context.layers, "num.partitions")
    if not 1 <= topic.partition_count <= PARTITIONS_MAX:
        raise KafkaError(
            errors.INVALID_PARTITIONS,
            f"partition count {topic.partition_count} is refused: use 1 to {PARTITIONS_MAX}, or -1 for the default",
        )
    return topic.partition_count


def _checked_assignments(topic: NewTopic) -> list[tuple[BrokerId, ...]]:
    if topic.partition_count != DEFAULT or topic.replication_factor != DEFAULT:
        raise KafkaError(
            errors.INVALID_REQUEST,
            "a request with assignments must set both the partition count and the replication factor to -1",
        )
    by_partition = dict(topic.assignments)
    if sorted(by_partition) != list(range(len(topic.assignments))) or len(by_partition) > PARTITIONS_MAX:
        raise KafkaError(
            errors.INVALID_REPLICA_ASSIGNMENT,
            f"assignments must name each partition once, numbered from 0 without gaps, at most {PARTITIONS_MAX}",
        )
    return [by_partition[partition] for partition in range(len(by_partition))]


def _existing_topic(image: ClusterImage, topic: Topic) -> CreatedTopic:
    return CreatedTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_count=topic.partition_count,
        replication_factor=image.replication_factor(topic),
        settings=dict(image.topic_overrides(topic.name)),
    )
