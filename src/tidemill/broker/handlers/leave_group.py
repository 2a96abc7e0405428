"""
LeaveGroup (key 13): v0-5

Removes members from a classic group, at their own request or an administrator's.

v3  many members, each with its own error (KIP-345); before v3, one member, whose error is the top-level error
v5  reason: ignored
"""

from tidemill.broker.coordinators.group_coordinator import ask_group
from tidemill.broker.request.request_context import RequestContext
from tidemill.coordinator.group.requests import Leave, LeavingMember
from tidemill.coordinator.group.responses import Left
from tidemill.shard.pending import Pending
from tidemill.wire.messages.leave_group import Request, Response

Member = Response.Member


def handle(request: Request, context: RequestContext) -> Pending[Response]:
    pending: Pending[Response] = Pending()
    names_many = context.version >= 3

    def answer(reply: Left) -> None:
        if names_many:
            pending.complete(_of_many(reply))
        else:
            pending.complete(Response(error_code=reply.error_code or reply.members[0].error_code))

    members = (
        tuple(LeavingMember(member_id=it.member_id, instance_id=it.group_instance_id) for it in request.members)
        if names_many
        else (LeavingMember(member_id=request.member_id),)
    )
    ask_group(
        context.broker.coordinators, request.group_id, Leave(waiter=answer, group_id=request.group_id, members=members)
    )
    return pending


def _of_many(reply: Left) -> Response:
    return Response(
        error_code=reply.error_code,
        members=[
            Member(member_id=it.member_id, group_instance_id=it.instance_id, error_code=it.error_code)
            for it in reply.members
        ],
    )
