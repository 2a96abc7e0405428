"""
ShareGroupHeartbeat (key 76): v1

Always answers UNSUPPORTED_VERSION, as Kafka does where share groups (KIP-932) are disabled: share groups are not
implemented.  The client's consumer then fails with an error that says so.
"""

from tidemill.broker.coordinators.unbuilt_protocols import SHARE_GROUPS
from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.wire.messages.share_group_heartbeat import Request, Response


def handle(request: Request, context: RequestContext) -> Response:
    context.broker.coordinators.unbuilt_protocols.refused(
        SHARE_GROUPS, request.group_id, context.client_id or "", context.connection.peer[0]
    )
    return Response(
        error_code=errors.UNSUPPORTED_VERSION,
        error_message=SHARE_GROUPS,
        member_epoch=0,
        heartbeat_interval_ms=0,
    )
