"""
DeleteGroups (key 42): v0-2

Deletes empty groups and their committed offsets.  The error for a group that has members is NON_EMPTY_GROUP.
"""

from tidemill.broker.coordinators.group_coordinator import ask_group
from tidemill.broker.request.request_context import RequestContext
from tidemill.coordinator.group.requests import DeleteGroups
from tidemill.coordinator.group.responses import GroupsDeleted
from tidemill.shard.pending import Pending
from tidemill.wire.messages.delete_groups import Request, Response

Group = Response.Group


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    names = list(dict.fromkeys(request.groups_names))
    if not names:
        return Response(results=())
    pending: Pending[Response] = Pending()
    results: dict[str, Group] = {}

    def answered(group_id: str, reply: GroupsDeleted) -> None:
        results[group_id] = Group(group_id=group_id, error_code=reply.error_codes[0])
        if len(results) == len(names):
            pending.complete(Response(results=[results[name] for name in names]))

    for group_id in names:
        ask_group(
            context.broker.coordinators,
            group_id,
            DeleteGroups(waiter=lambda reply, group_id=group_id: answered(group_id, reply), group_ids=(group_id,)),
        )
    return pending
