"""
SyncGroup (key 14): v0-5

Distributes assignments in a classic group: the group's leader sends the assignments of all members, and the response to
each member contains that member's assignment.

v3  group_instance_id (KIP-345)
v5  protocol_type and protocol_name, both required (KIP-559)
"""

from tidemill.broker.coordinators.group_coordinator import ask_group
from tidemill.broker.request.request_context import RequestContext
from tidemill.coordinator.group.requests import Sync
from tidemill.coordinator.group.responses import Synced
from tidemill.model import errors
from tidemill.shard.pending import Pending
from tidemill.wire.messages.sync_group import Request, Response


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    if context.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return Response(error_code=errors.INCONSISTENT_GROUP_PROTOCOL, assignment=b"")
    pending: Pending[Response] = Pending()

    def answer(reply: Synced) -> None:
        pending.complete(
            Response(
                error_code=reply.error_code,
                protocol_type=reply.protocol_type,
                protocol_name=reply.protocol_name,
                assignment=reply.assignment,
            )
        )

    ask_group(
        context.broker.coordinators,
        request.group_id,
        Sync(
            waiter=answer,
            group_id=request.group_id,
            generation=request.generation_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments=tuple((it.member_id, it.assignment) for it in request.assignments),
        ),
    )
    return pending
