"""`/v1/topics`: create, list, describe, change and delete topics.  Any broker answers; the controller decides."""

from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from tidemill.http.v1.brokers import Brokers
from tidemill.http.v1.calls import Call, Refused, Route
from tidemill.http.v1.configs import alter_configs
from tidemill.http.v1.kafka_errors import check
from tidemill.http.v1.rights import ALTER_TOPIC, CREATE_TOPIC, DELETE_TOPIC, DESCRIBE_TOPIC, DESCRIBE_TOPIC_CONFIGS
from tidemill.metadata.image import Topic
from tidemill.metadata.metadata_records import TOPIC_RESOURCE, ConfigResource
from tidemill.model.topic import METADATA_TOPIC, NAME_LENGTH_MAX, topic_id_text
from tidemill.model.topic_kind import KIND, TopicKind
from tidemill.wire.messages import create_partitions, create_topics, delete_topics

LIMIT_MAX: Final = 1_000
TIMEOUT_MS: Final = 30_000
PARTITIONS_MAX: Final = (1 << 31) - 1
REPLICAS_MAX: Final = (1 << 15) - 1
NAME_PATTERN: Final = "^[a-zA-Z0-9._-]+$"  # for programs that read the OpenAPI document; the controller checks names
BY_DEFAULT: Final = -1  # the number of partitions or replicas that the cluster's configuration gives

Configs = dict[str, str]


class ListQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: Annotated[str, Meta(description="Topics with greater names only.")] = ""
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = 100


class TopicRow(msgspec.Struct, frozen=True):
    name: str
    topic_id: str
    kind: str
    partitions: int
    replication_factor: int
    internal: bool


class Topics(msgspec.Struct, frozen=True):
    topics: list[TopicRow]
    more: bool


class CreateBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH_MAX, extra_json_schema={"pattern": NAME_PATTERN})]
    partitions: Annotated[int, Meta(ge=1, le=PARTITIONS_MAX)] | None = None
    replication_factor: Annotated[int, Meta(ge=1, le=REPLICAS_MAX)] | None = None
    kind: (
        Annotated[
            str,
            Meta(
                description="timer delivers each record when it is due; log, the default, at once.",
                extra_json_schema={"enum": [TopicKind.LOG, TopicKind.TIMER]},
            ),
        ]
        | None
    ) = None
    configs: Configs = {}


class ChangeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    partitions: (
        Annotated[int, Meta(ge=1, le=PARTITIONS_MAX, description="The new number of partitions; it can only grow.")]
        | None
    ) = None
    configs: Annotated[dict[str, str | None], Meta(description="Values to set; null restores the default.")] = {}


class Created(msgspec.Struct, frozen=True):
    name: str
    topic_id: str
    partitions: int
    replication_factor: int


class PartitionRow(msgspec.Struct, frozen=True):
    partition: int
    leader: int | None
    replicas: list[int]


class Described(msgspec.Struct, frozen=True):
    name: str
    topic_id: str
    kind: str
    internal: bool
    partitions: list[PartitionRow]
    configs: Configs


async def list_topics(call: Call) -> Topics:
    query: ListQuery = call.query
    names = sorted(name for name in call.brokers.image.topics if name > query.after)
    rows = [_row(call, call.brokers.image.topics[name]) for name in names[: query.limit]]
    return Topics(rows, more=len(names) > query.limit)


def _row(call: Call, topic: Topic) -> TopicRow:
    return TopicRow(
        name=topic.name,
        topic_id=topic_id_text(topic.topic_id),
        kind=topic.kind,
        partitions=topic.partition_count,
        replication_factor=call.brokers.image.replication_factor(topic),
        internal=topic.is_internal,
    )


async def create(call: Call) -> Created:
    return await create_topic(call.brokers, call.body)


async def create_topic(brokers: Brokers, body: CreateBody) -> Created:
    configs = body.configs
    if body.kind is not None:
        if KIND in configs:
            raise Refused(400, f"kind={body.kind[:100]} and {KIND}={configs[KIND][:100]} in configs: give one of them")
        configs = {**configs, KIND: body.kind}
    asked = create_topics.Request.Topic
    topic = asked(
        name=body.name,
        num_partitions=BY_DEFAULT if body.partitions is None else body.partitions,
        replication_factor=BY_DEFAULT if body.replication_factor is None else body.replication_factor,
        assignments=(),
        configs=[asked.Config(name=name, value=value) for name, value in configs.items()],
    )
    response = await brokers.ask_here(create_topics.API, create_topics.Request(topics=[topic], timeout_ms=TIMEOUT_MS))
    (made,) = response.topics
    check(made.error_code, made.error_message, f"topic {body.name}")
    return Created(made.name, topic_id_text(made.topic_id), made.num_partitions, made.replication_factor)


async def describe(call: Call) -> Described:
    return _described(call, topic_of(call))


def _described(call: Call, topic: Topic) -> Described:
    brokers = call.brokers
    return Described(
        name=topic.name,
        topic_id=topic_id_text(topic.topic_id),
        kind=topic.kind,
        internal=topic.is_internal,
        partitions=[
            PartitionRow(number, None if led is None else led.leader, brokers.replicas(topic, number))
            for number in range(topic.partition_count)
            for led in (brokers.place(topic, number),)
        ],
        configs=dict(brokers.image.topic_overrides(topic.name)),
    )


async def change(call: Call) -> None:
    """If one of the changes is refused, nothing has changed: partitions cannot be taken away again."""
    topic, body = topic_of(call), call.body
    resource, about = ConfigResource(TOPIC_RESOURCE, topic.name), f"topic {topic.name}"
    if body.partitions is not None and body.partitions != topic.partition_count:
        if body.configs:
            await alter_configs(call.brokers, resource, body.configs, about, validate_only=True)
        asked = create_partitions.Request.Topic(name=topic.name, count=body.partitions, assignments=None)
        response = await call.brokers.ask_here(
            create_partitions.API,
            create_partitions.Request(topics=[asked], timeout_ms=TIMEOUT_MS, validate_only=False),
        )
        _check_each(response.results, topic.name)
    if body.configs:
        await alter_configs(call.brokers, resource, body.configs, about)


async def delete(call: Call) -> None:
    topic = topic_of(call)
    asked = delete_topics.Request.Topic(name=None, topic_id=topic.topic_id)
    response = await call.brokers.ask_here(
        delete_topics.API, delete_topics.Request(topics=[asked], timeout_ms=TIMEOUT_MS)
    )
    _check_each(response.responses, topic.name)


def topic_of(call: Call) -> Topic:
    """Return the topic in a path.  Raise Refused if it does not exist."""
    return topic_named(call.brokers, call.names["topic"])


def topic_named(brokers: Brokers, name: str) -> Topic:
    """Likewise for the topic of a name; also raise Refused for the metadata's, which no client uses."""
    if name == METADATA_TOPIC:
        raise Refused(403, f"topic {name} is for brokers only; GET /v1/cluster and /v1/topics show what it says")
    topic = brokers.image.topic(name)
    if topic is None:
        raise Refused(404, f"topic {name[:300]} does not exist; create it with POST /v1/topics")
    return topic


def _check_each(answers: Iterable[Any], name: str) -> None:
    for answer in answers:
        check(answer.error_code, answer.error_message, f"topic {name}")


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/topics",
        access=DESCRIBE_TOPIC,
        handler=list_topics,
        query=ListQuery,
        response=Topics,
        summary="List topics in the order of their names.",
    ),
    Route(
        method="POST",
        path="/v1/topics",
        access=CREATE_TOPIC,
        handler=create,
        body=CreateBody,
        example={"name": "mails", "partitions": 4, "configs": {"retention.ms": "604800000"}},
        response=Created,
        status=201,
        summary="Create a topic.",
        gives={"topic": "/name"},
    ),
    Route(
        method="GET",
        path="/v1/topics/{topic}",
        access=DESCRIBE_TOPIC_CONFIGS,
        handler=describe,
        response=Described,
        summary="Show a topic's partitions and its own configuration.",
    ),
    Route(
        method="PATCH",
        path="/v1/topics/{topic}",
        access=ALTER_TOPIC,
        handler=change,
        body=ChangeBody,
        example={"partitions": 8, "configs": {"retention.ms": None}},
        response=None,
        status=204,
        summary="Add partitions, and set or restore configuration.",
    ),
    Route(
        method="DELETE",
        path="/v1/topics/{topic}",
        access=DELETE_TOPIC,
        handler=delete,
        response=None,
        status=204,
        summary="Delete a topic and its records.",
    ),
)
