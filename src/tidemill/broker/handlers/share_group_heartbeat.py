"""
ShareGroupHeartbeat (key 76): v1

Joins or leaves a share group, keeps the membership, and returns the member's partitions (KIP-932).
"""

from tidemill.broker.coordinators.group_coordinator import ask_group
from tidemill.broker.request.request_context import RequestContext
from tidemill.coordinator.share_group.requests import ShareHeartbeat
from tidemill.coordinator.share_group.responses import ShareHeartbeatTaken
from tidemill.shard.pending import Pending
from tidemill.wire.messages.share_group_heartbeat import Request, Response

Assignment = Response.Assignment


def handle(request: Request, context: RequestContext) -> Pending[Response]:
    pending: Pending[Response] = Pending()
    topics = request.subscribed_topic_names
    heartbeat = ShareHeartbeat(
        waiter=lambda reply: pending.complete(_response(reply)),
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        rack=request.rack_id,
        client_id=context.client_id or "",
        client_host=f"/{context.connection.peer[0]}",
        topics=None if topics is None else tuple(topics),
    )
    ask_group(context.broker.coordinators, request.group_id, heartbeat)
    return pending


def _response(reply: ShareHeartbeatTaken) -> Response:
    return Response(
        error_code=reply.error_code,
        error_message=reply.error_message,
        member_id=reply.member_id or None,
        member_epoch=reply.epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=None
        if reply.assignment is None
        else Assignment(
            topic_partitions=[
                Assignment.TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in reply.assignment.items()
            ]
        ),
    )
