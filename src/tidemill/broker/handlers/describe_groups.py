"""
DescribeGroups (key 15): v0-6

Describes classic groups and their members.

v3  include_authorized_operations: unset (INT32_MIN), because there is no authorizer yet
v4  group_instance_id (KIP-345)
v6  an unknown group gets GROUP_ID_NOT_FOUND and a message (KIP-1043); before v6, the state Dead and no error
"""

from tidemill.broker.coordinators.group_coordinator import ask_group
from tidemill.broker.request.request_context import RequestContext
from tidemill.coordinator.group.requests import DescribeGroups
from tidemill.coordinator.group.responses import DescribedGroup, GroupsDescribed
from tidemill.model import errors
from tidemill.shard.pending import Pending
from tidemill.wire.messages.describe_groups import Request, Response

Group = Response.Group
Member = Response.Group.Member


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    if not request.groups:
        return Response(groups=())
    pending: Pending[Response] = Pending()
    groups: list[Group | None] = [None] * len(request.groups)

    def answered(at: int, reply: GroupsDescribed) -> None:
        groups[at] = _group(reply.groups[0], context.version)
        if None not in groups:
            pending.complete(Response(groups=[group for group in groups if group is not None]))

    for at, group_id in enumerate(request.groups):
        ask_group(
            context.broker.coordinators,
            group_id,
            DescribeGroups(waiter=lambda reply, at=at: answered(at, reply), group_ids=(group_id,)),
        )
    return pending


def _group(described: DescribedGroup, version: int) -> Group:
    error_code, message = described.error_code, described.error_message
    if error_code == errors.GROUP_ID_NOT_FOUND and version < 6:
        error_code, message = errors.NONE, None
    return Group(
        error_code=error_code,
        error_message=message,
        group_id=described.group_id,
        group_state=described.state,
        protocol_type=described.protocol_type,
        protocol_data=described.protocol_name,
        members=[
            Member(
                member_id=it.member_id,
                group_instance_id=it.instance_id,
                client_id=it.client_id,
                client_host=it.client_host,
                member_metadata=it.metadata,
                member_assignment=it.assignment,
            )
            for it in described.members
        ],
    )
