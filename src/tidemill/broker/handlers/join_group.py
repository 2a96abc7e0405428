"""
JoinGroup (key 11): v0-9

Lets a member join the next generation of a classic group.  The response is sent when the generation begins.

v1  rebalance_timeout_ms
v4  a new member gets its id in a first response (KIP-394)
v5  group_instance_id (KIP-345)
v7  protocol_type; protocol_name may be null (KIP-559)
v8  reason: ignored
v9  skip_assignment (KIP-814)
"""

from tidemill.broker.coordinators.group_coordinator import ask_group
from tidemill.broker.request.request_context import RequestContext
from tidemill.coordinator.group.requests import Join
from tidemill.coordinator.group.responses import Joined
from tidemill.shard.pending import Pending
from tidemill.wire.messages.join_group import Request, Response

Member = Response.Member


def handle(request: Request, context: RequestContext) -> Pending[Response]:
    pending: Pending[Response] = Pending()
    version = context.version

    def answer(reply: Joined) -> None:
        pending.complete(_response(reply, version))

    ask_group(
        context.broker.coordinators,
        request.group_id,
        Join(
            waiter=answer,
            group_id=request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            client_id=context.client_id or "",
            client_host=f"/{context.connection.peer[0]}",
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
            must_know_member_id=version >= 4,
            can_skip_assignment=version >= 9,
        ),
    )
    return pending


def _response(reply: Joined, version: int) -> Response:
    protocol_name = reply.protocol_name
    if protocol_name is None and version < 7:
        protocol_name = ""
    return Response(
        error_code=reply.error_code,
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name=protocol_name,
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[
            Member(member_id=it.member_id, group_instance_id=it.instance_id, metadata=it.metadata)
            for it in reply.members
        ],
    )
