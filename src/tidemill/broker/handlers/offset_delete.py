"""
OffsetDelete (key 47): v0

Deletes committed offsets of a group (KIP-496), except for topics to which members of the group subscribe.
"""

from tidemill.broker.coordinators.group_coordinator import ask_group
from tidemill.broker.request.request_context import RequestContext
from tidemill.coordinator.group.requests import DeleteOffsets, TopicPartitionId
from tidemill.coordinator.group.responses import OffsetsDeleted
from tidemill.model import errors
from tidemill.shard.pending import Pending
from tidemill.wire.messages.offset_delete import Request, Response

Partition = Response.Topic.Partition


def handle(request: Request, context: RequestContext) -> Pending[Response]:
    image = context.broker.image
    topics = []
    partitions: list[TopicPartitionId] = []
    deleted: list[Partition] = []  # the responses for `partitions`, in the same order
    for asked in request.topics:
        topic = image.topic(asked.name)
        answers = []
        for it in asked.partitions:
            answer = Partition(partition_index=it.partition_index, error_code=errors.NONE)
            answers.append(answer)
            if topic is None or not 0 <= it.partition_index < topic.partition_count:
                answer.error_code = errors.UNKNOWN_TOPIC_OR_PARTITION
                continue
            deleted.append(answer)
            partitions.append(TopicPartitionId(topic=topic.name, topic_id=topic.topic_id, partition=it.partition_index))
        topics.append(Response.Topic(name=asked.name, partitions=answers))
    pending: Pending[Response] = Pending()

    def answered(reply: OffsetsDeleted) -> None:
        if reply.error_code:
            pending.complete(Response(error_code=reply.error_code, topics=()))
            return
        for answer, error_code in zip(deleted, reply.error_codes, strict=True):
            answer.error_code = error_code
        pending.complete(Response(error_code=errors.NONE, topics=topics))

    ask_group(
        context.broker.coordinators,
        request.group_id,
        DeleteOffsets(waiter=answered, group_id=request.group_id, partitions=tuple(partitions)),
    )
    return pending
