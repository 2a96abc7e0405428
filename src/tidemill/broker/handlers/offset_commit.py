"""
OffsetCommit (key 8): v2-10

Commits offsets for a group.  A committed offset is stored together with the topic's id, so the topic must exist.

v2  retention_time_ms (until v4): stored with the offset
v6  committed_leader_epoch
v7  group_instance_id (KIP-345)
v9  GROUP_ID_NOT_FOUND is a possible error (KIP-848)
v10 topics by id; UNKNOWN_TOPIC_ID is a possible error
"""

from tidemill.broker.coordinators.group_coordinator import ask_group
from tidemill.broker.request.request_context import RequestContext
from tidemill.coordinator.group.requests import CommitOffsets, OffsetToCommit
from tidemill.coordinator.group.responses import OffsetsCommitted
from tidemill.model import errors
from tidemill.shard.pending import Pending
from tidemill.wire.messages.offset_commit import Request, Response

Partition = Response.Topic.Partition


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    image = context.broker.image
    topics = []
    offsets: list[OffsetToCommit] = []
    committed: list[Partition] = []  # the responses for `offsets`, in the same order
    by_id = context.version >= 10
    for asked in request.topics:
        topic = image.topic_by_id(asked.topic_id) if by_id else image.topic(asked.name)
        unknown = errors.UNKNOWN_TOPIC_ID if by_id and topic is None else errors.UNKNOWN_TOPIC_OR_PARTITION
        answers = []
        for it in asked.partitions:
            answer = Partition(partition_index=it.partition_index, error_code=errors.NONE)
            answers.append(answer)
            if topic is None or not 0 <= it.partition_index < topic.partition_count:
                answer.error_code = unknown
                continue
            committed.append(answer)
            offsets.append(
                OffsetToCommit(
                    topic=topic.name,
                    topic_id=topic.topic_id,
                    partition=it.partition_index,
                    offset=it.committed_offset,
                    leader_epoch=it.committed_leader_epoch,
                    metadata=it.committed_metadata or "",
                )
            )
        topics.append(Response.Topic(name=asked.name, topic_id=asked.topic_id, partitions=answers))
    response = Response(topics=topics)
    if not offsets:
        return response
    pending: Pending[Response] = Pending()

    def answered(reply: OffsetsCommitted) -> None:
        for answer, error_code in zip(committed, reply.error_codes, strict=True):
            answer.error_code = error_code
        pending.complete(response)

    ask_group(
        context.broker.coordinators,
        request.group_id,
        CommitOffsets(
            waiter=answered,
            group_id=request.group_id,
            generation=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            retention_ms=request.retention_time_ms,
            knows_group_id_not_found=context.version >= 9,
            offsets=tuple(offsets),
        ),
    )
    return pending
