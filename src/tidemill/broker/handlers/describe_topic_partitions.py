"""
DescribeTopicPartitions (key 75): v0

Topics and their partitions in the order of their names, a page at a time (KIP-966).  Where a page ends the cursor names
the first partition that is not in it.  Without names, all topics.

There are no eligible leader replicas: a leader is elected by a majority, and that is all it takes.  The lists are empty
and not null, which Java's admin client cannot read.
"""

from tidemill.broker.request_context import RequestContext
from tidemill.metadata.image import Topic
from tidemill.model import errors
from tidemill.model.config_resolution import broker_int
from tidemill.model.topic import METADATA_TOPIC, NO_TOPIC_ID, name_problem
from tidemill.wire.messages.describe_topic_partitions import Request, Response

TopicResponse = Response.Topic
PartitionResponse = Response.Topic.Partition


def handle(request: Request, context: RequestContext) -> Response:
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        return Response(topics=[_refused(topic.name, errors.INVALID_REQUEST) for topic in request.topics])
    image = context.broker.image
    asked = {topic.name for topic in request.topics} or image.topics.keys() - {METADATA_TOPIC}
    names = sorted(name for name in asked if cursor is None or name >= cursor.topic_name)
    room = max(1, min(request.response_partition_limit, broker_int(context.broker.layers, LIMIT_KEY)))
    topics = []
    for name in names:
        topic = image.topic(name)
        if topic is None:
            topics.append(_refused(name, _missing(name)))
            continue
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if not room:
            return Response(topics=topics, next_cursor=Response.Cursor(topic_name=name, partition_index=first))
        end = min(first + room, topic.partition_count)
        topics.append(_described(context, topic, range(first, end)))
        room -= max(0, end - first)
        if end < topic.partition_count:
            return Response(topics=topics, next_cursor=Response.Cursor(topic_name=name, partition_index=end))
    return Response(topics=topics)


LIMIT_KEY = "max.request.partition.size.limit"


def _described(context: RequestContext, topic: Topic, numbers: range) -> TopicResponse:
    image, cluster = context.broker.image, context.broker.cluster
    partitions = []
    for number in numbers:
        shard_id = topic.shard_of(number)
        assert shard_id is not None, f"partition {number} of {topic.name} is in no shard"
        planned = image.shards[shard_id]
        replicas = [voter.broker_id for voter in planned.replicas]
        leader = cluster.leader_of(topic, number)
        partitions.append(
            PartitionResponse(
                error_code=errors.NONE if leader else errors.LEADER_NOT_AVAILABLE,
                partition_index=number,
                leader_id=leader[0] if leader else -1,
                leader_epoch=leader[1] if leader else -1,
                replica_nodes=replicas,
                isr_nodes=cluster.in_sync(planned),
                eligible_leader_replicas=(),
                last_known_elr=(),
                offline_replicas=(),
            )
        )
    return TopicResponse(
        error_code=errors.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
    )


def _missing(name: str) -> int:
    return errors.INVALID_TOPIC_EXCEPTION if name_problem(name) else errors.UNKNOWN_TOPIC_OR_PARTITION


def _refused(name: str, error_code: int) -> TopicResponse:
    return TopicResponse(error_code=error_code, name=name, topic_id=NO_TOPIC_ID, partitions=())
