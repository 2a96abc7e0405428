"""
ShareAcknowledge (key 79): v1-2

Acknowledges records that a member of a share group holds (KIP-932).  The response follows when the acknowledgements are
committed.

v2  is_renew_ack: renews locks (KIP-1222); acquisition_lock_timeout_ms in the response
"""

from typing import Final

from tidemill.broker.request.leader_hints import WRONG_LEADER, add_leader_hints
from tidemill.broker.request.request_context import RequestContext
from tidemill.broker.request.share_acknowledgements import ShareAcknowledgements
from tidemill.model import errors
from tidemill.model.errors import KafkaError
from tidemill.model.topic import TopicId
from tidemill.shard.pending import Pending
from tidemill.share.share_session import FINAL_EPOCH
from tidemill.wire.messages.share_acknowledge import Request, Response

PartitionResponse = Response.Topic.Partition
NOT_SAID: Final = PartitionResponse.CurrentLeader(leader_id=-1, leader_epoch=-1)


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    shares = context.broker.shares
    if not request.group_id or not request.member_id:
        return Response(
            error_code=errors.INVALID_REQUEST,
            error_message="a ShareAcknowledge needs a group id and a member id",
            responses=(),
            node_endpoints=(),
        )
    try:
        session = shares.sessions.acknowledge(
            request.group_id, request.member_id, request.share_session_epoch, connection=context.connection
        )
    except KafkaError as refused:
        return Response(error_code=refused.error_code, error_message=refused.message, responses=(), node_endpoints=())
    acknowledgements = ShareAcknowledgements(shares, session, request.topics, may_renew=request.is_renew_ack)
    if request.share_session_epoch == FINAL_EPOCH:
        shares.release(session)
    pending: Pending[Response] = Pending()
    acknowledgements.then(lambda _: pending.complete(_response(context, session.group, acknowledgements)))
    return pending


def _response(context: RequestContext, group: str, acknowledgements: ShareAcknowledgements) -> Response:
    broker = context.broker
    topics: dict[TopicId, list[PartitionResponse]] = {}
    misdirected = []
    for key, (code, message) in acknowledgements.outcomes.items():
        answer = PartitionResponse(
            partition_index=key.partition, error_code=code, error_message=message, current_leader=NOT_SAID
        )
        topics.setdefault(key.topic_id, []).append(answer)
        if code in WRONG_LEADER:
            topic = broker.image.topic_by_id(key.topic_id)
            misdirected.append((None if topic is None else topic.name, key.partition, answer))
    return Response(
        error_code=errors.NONE,
        acquisition_lock_timeout_ms=broker.shares.configs.of(group).lock_ms,
        responses=[Response.Topic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()],
        node_endpoints=add_leader_hints(context, Response, misdirected) if misdirected else [],
    )
