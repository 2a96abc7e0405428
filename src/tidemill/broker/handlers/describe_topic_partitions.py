"""
DescribeTopicPartitions (key 75): v0

Returns topics and their partitions, ordered by topic name, one page at a time (KIP-966).  The cursor of a page
identifies the first partition that is not in the page.  A request without topic names returns all topics.

Tidemill has no eligible leader replicas, because a majority elects the leader.  The lists of eligible leader replicas
are empty rather than null, because Java's admin client cannot handle null.
"""

from tidemill.broker.leadership.partition_view import partition_view
from tidemill.broker.request.request_context import RequestContext
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
    broker = context.broker
    listed = {known.node_id for known in broker.endpoints_for(context.connection.listener)}
    partitions = []
    for number in numbers:
        seen = partition_view(broker.image, broker.cluster, topic, number, listed)
        partitions.append(
            PartitionResponse(
                error_code=seen.error_code,
                partition_index=number,
                leader_id=seen.leader_id,
                leader_epoch=seen.leader_epoch,
                replica_nodes=seen.replicas,
                isr_nodes=seen.in_sync,
                eligible_leader_replicas=(),
                last_known_elr=(),
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


def _missing(name: str) -> int:
    return errors.INVALID_TOPIC_EXCEPTION if name_problem(name) else errors.UNKNOWN_TOPIC_OR_PARTITION


def _refused(name: str, error_code: int) -> TopicResponse:
    return TopicResponse(error_code=error_code, name=name, topic_id=NO_TOPIC_ID, partitions=())
