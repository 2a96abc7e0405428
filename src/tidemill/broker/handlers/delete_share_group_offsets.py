"""
DeleteShareGroupOffsets (key 92): v0

Deletes what a share group without members has done with the records of topics (KIP-932).  The response is sent when the
coordinator's decision has committed.  The leaders of the partitions remove their shares afterwards; a member that
subscribes to such a topic again does not depend on that, because its shares have a greater incarnation.
"""

from tidemill.broker.coordinators.group_coordinator import ask_group
from tidemill.broker.request.request_context import RequestContext
from tidemill.coordinator.share_group.requests import DeleteShareOffsets
from tidemill.coordinator.share_group.responses import ShareOffsetsDeleted
from tidemill.shard.pending import Pending
from tidemill.wire.messages.delete_share_group_offsets import Request, Response


def handle(request: Request, context: RequestContext) -> Pending[Response]:
    pending: Pending[Response] = Pending()
    names = tuple(dict.fromkeys(topic.topic_name for topic in request.topics))

    def deleted(reply: ShareOffsetsDeleted) -> None:
        topics = [] if reply.error_code else list(zip(names, reply.topics, strict=True))
        response = Response(
            error_code=reply.error_code,
            error_message=reply.error_message,
            responses=[
                Response.Topic(
                    topic_name=name,
                    topic_id=topic.topic_id,
                    error_code=topic.error_code,
                    error_message=topic.error_message,
                )
                for name, topic in topics
            ],
        )
        pending.complete(response)

    ask_group(
        context.broker.coordinators,
        request.group_id,
        DeleteShareOffsets(waiter=deleted, group_id=request.group_id, topics=names),
    )
    return pending
