"""
Heartbeat (key 12): v0-4

Renews the session of a member of a classic group.  The response tells the member whether it must rejoin.

v3  group_instance_id (KIP-345)
"""

from tidemill.broker.coordinators.group_coordinator import ask_group
from tidemill.broker.request.request_context import RequestContext
from tidemill.coordinator.group.requests import Heartbeat
from tidemill.coordinator.group.responses import HeartbeatTaken
from tidemill.shard.pending import Pending
from tidemill.wire.messages.heartbeat import Request, Response


def handle(request: Request, context: RequestContext) -> Pending[Response]:
    pending: Pending[Response] = Pending()

    def answer(reply: HeartbeatTaken) -> None:
        pending.complete(Response(error_code=reply.error_code))

    ask_group(
        context.broker.coordinators,
        request.group_id,
        Heartbeat(
            waiter=answer,
            group_id=request.group_id,
            generation=request.generation_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
        ),
    )
    return pending
