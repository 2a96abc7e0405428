"""
ListGroups (key 16): v0-5

Lists every group that this broker coordinates.  While the broker is loading one of its coordinator partitions, the
entire request is rejected with COORDINATOR_LOAD_IN_PROGRESS.

v4  states_filter, group_state (KIP-518)
v5  types_filter, group_type (KIP-848)
"""

from tidemill.broker.coordinators.group_coordinator import GROUPS
from tidemill.broker.request.request_context import RequestContext
from tidemill.coordinator.group.requests import ListGroups
from tidemill.coordinator.group.responses import GroupsListed
from tidemill.model import errors
from tidemill.shard.pending import Pending
from tidemill.wire.messages.list_groups import Request, Response

Group = Response.Group


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    hosted = context.broker.coordinators.of(GROUPS).hosted()
    if not hosted:
        return Response(error_code=errors.NONE, groups=())
    pending: Pending[Response] = Pending()
    replies: list[GroupsListed] = []

    def answered(reply: GroupsListed) -> None:
        replies.append(reply)
        if len(replies) == len(hosted):
            pending.complete(_response(replies))

    for partition in hosted:
        asked = ListGroups(waiter=answered, states=tuple(request.states_filter), types=tuple(request.types_filter))
        partition.ask(asked, answered)
    return pending


def _response(replies: list[GroupsListed]) -> Response:
    error_code = next((reply.error_code for reply in replies if reply.error_code), errors.NONE)
    if error_code:
        return Response(error_code=error_code, groups=())
    return Response(
        error_code=errors.NONE,
        groups=[
            Group(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.type,
            )
            for reply in replies
            for group in reply.groups
        ],
    )
