"""Metadata (key 3): v0-13

Returns the brokers that are up or were up recently, the topics, and the leader of each partition.  A leader and its
epoch are returned as one pair: a leader is known only together with its confirmed epoch, and the response waits for
such a leader (`broker/peers/leader_waiters`).

A broker that is isolated, and therefore knows no leader, closes the client's connection, so that the client immediately
asks another broker (decision 13).

v4   allow_auto_topic_creation
v5   offline_replicas: replicas that are not up
v7   leader_epoch
v8   authorized operations: unset (INT32_MIN), because there is no authorizer yet
v10  topic ids
v12  topics by id
"""

from collections.abc import Collection, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final

from tidemill.broker.leadership.partition_view import partition_view
from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.image import ClusterImage, Topic
from tidemill.model import errors
from tidemill.model.config_resolution import broker_flag
from tidemill.model.internal_topics import is_internal
from tidemill.model.shard import ShardId
from tidemill.model.topic import METADATA_TOPIC, NO_TOPIC_ID, name_problem
from tidemill.shard.pending import Pending
from tidemill.wire.messages.metadata import Request, Response

CREATED_MAX: Final = 100  # topics created per request; clients request the missing ones again

TopicResponse = Response.Topic
PartitionResponse = Response.Topic.Partition


def handle(request: Request, context: RequestContext) -> Response | Pending[Response] | None:
    if _should_close_connection(request, context):
        context.connection.close()
        return None
    broker = context.broker
    pending: Pending[Response] = Pending()

    def created(problems: Mapping[str, int]) -> None:
        broker.cluster.leader_waiters.wait_for_leaders(
            _shards(request, context), lambda: pending.complete(_answer(request, context, problems))
        )

    missing = _to_create(request, context)
    if missing:
        broker.topic_creation.create(missing, created)
    else:
        created({})
    return pending


def _shards(request: Request, context: RequestContext) -> Collection[ShardId]:
    """Return the shards of the topics that the request names."""
    image = context.broker.image
    if _wants_all(request, context):
        return image.shards
    topics = [_find(image, asked) for asked in request.topics or ()]
    return [shard_id for topic in topics if topic is not None for shard_id in topic.shard_ids]


def _wants_all(request: Request, context: RequestContext) -> bool:
    return request.topics is None or (context.version == 0 and not request.topics)


def _find(image: ClusterImage, asked: Request.Topic) -> Topic | None:
    return image.topic_by_id(asked.topic_id) if asked.name is None else image.topic(asked.name)


def _should_close_connection(request: Request, context: RequestContext) -> bool:
    """
    Return whether this broker is isolated and knows no leader for any of the requested shards, or for any shard at all
    if the request names none.

    A shard may have a leader even though the metadata shard has none.  In that case, the broker answers.
    """
    broker = context.broker
    if broker.cluster.has_quorum_contact:
        return False
    return all(broker.cluster.leader(it) is None for it in _shards(request, context) or broker.image.shards)


def _to_create(request: Request, context: RequestContext) -> list[str]:
    """Return the names of the missing topics that this request may create.  Illegal names are left out."""
    broker = context.broker
    if context.version >= 4 and not request.allow_auto_topic_creation:
        return []
    if not request.topics:
        return []
    if not broker_flag(broker.layers, "auto.create.topics.enable"):
        return []
    image = broker.image
    names = dict.fromkeys(topic.name for topic in request.topics if topic.name)
    missing = (n for n in names if image.topic(n) is None and name_problem(n) is None and not is_internal(n))
    return list(islice(missing, CREATED_MAX))


def _answer(request: Request, context: RequestContext, problems: Mapping[str, int] = MappingProxyType({})) -> Response:
    """Build the response.  `problems` holds the error codes of the topics that could not be created."""
    broker = context.broker
    image = broker.image
    brokers = broker.endpoints_for(context.connection.listener)
    listed = {known.node_id for known in brokers}
    if _wants_all(request, context):
        topics = [
            _describe(context, image, topic, listed) for topic in image.topics.values() if topic.name != METADATA_TOPIC
        ]
    else:
        # Each topic is described only once: names are short and descriptions are long, so repeated names would make the
        # response far larger than the request.
        once = {(asked.name, asked.topic_id): asked for asked in request.topics or ()}
        topics = [_asked(context, image, asked, problems, listed) for asked in once.values()]
    return Response(
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=broker.identity.broker_id,  # this broker forwards requests to the controller
        topics=topics,
    )


def _asked(
    context: RequestContext,
    image: ClusterImage,
    asked: Request.Topic,
    problems: Mapping[str, int],
    listed: Collection[int],
) -> TopicResponse:
    topic = _find(image, asked)
    if topic is not None:
        return _describe(context, image, topic, listed)
    if asked.name is None:
        return TopicResponse(error_code=errors.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id, partitions=())
    absent = errors.INVALID_TOPIC_EXCEPTION if name_problem(asked.name) else errors.UNKNOWN_TOPIC_OR_PARTITION
    code = problems.get(asked.name, absent)
    return TopicResponse(error_code=code, name=asked.name, topic_id=NO_TOPIC_ID, partitions=())


def _describe(context: RequestContext, image: ClusterImage, topic: Topic, listed: Collection[int]) -> TopicResponse:
    partitions = []
    for number in range(topic.partition_count):
        seen = partition_view(image, context.broker.cluster, topic, number, listed)
        partitions.append(
            PartitionResponse(
                error_code=seen.error_code,
                partition_index=number,
                leader_id=seen.leader_id,
                leader_epoch=seen.leader_epoch,
                replica_nodes=seen.replicas,
                isr_nodes=seen.in_sync,
                offline_replicas=seen.offline,
            )
        )
    return TopicResponse(
        error_code=errors.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
    )
