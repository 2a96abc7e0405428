"""
ConsumerGroupHeartbeat (key 68): v0-1

Always answers UNSUPPORTED_VERSION, as Kafka does where the consumer protocol of KIP-848 is disabled: the protocol is
not implemented.  The client's consumer then fails with an error that says so.
"""

from tidemill.broker.coordinators.unbuilt_protocols import CONSUMER_PROTOCOL
from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.wire.messages.consumer_group_heartbeat import Request, Response


def handle(request: Request, context: RequestContext) -> Response:
    context.broker.coordinators.unbuilt_protocols.refused(
        CONSUMER_PROTOCOL, request.group_id, context.client_id or "", context.connection.peer[0]
    )
    return Response(
        error_code=errors.UNSUPPORTED_VERSION,
        error_message=CONSUMER_PROTOCOL,
        member_epoch=0,
        heartbeat_interval_ms=0,
    )
