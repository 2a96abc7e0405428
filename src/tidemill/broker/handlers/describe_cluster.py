"""
DescribeCluster (key 60): v0-2

Returns the brokers that are up or were up recently, with their endpoints for the client's listener.  The response names
this broker as the controller, because every broker forwards requests to the real controller, as KRaft's brokers do: a
client that was directed to a real controller that has just died would have to wait for a long time.  DescribeQuorum
returns the real controller.

v1  endpoint_type: brokers only, because controllers have no separate listener (KIP-919)
v2  include_fenced_brokers: adds brokers that are down, marked with is_fenced (KIP-1073)

Authorized operations are unset (INT32_MIN), because there is no authorizer yet.
"""

from typing import Final

from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.wire.messages import metadata
from tidemill.wire.messages.describe_cluster import Request, Response

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(request: Request, context: RequestContext) -> Response:
    if request.endpoint_type != BROKERS:
        return _other_endpoint(request)
    broker = context.broker
    listener = context.connection.listener
    brokers = [_broker(known, is_fenced=False) for known in broker.endpoints_for(listener)]
    if request.include_fenced_brokers:
        brokers += [_broker(known, is_fenced=True) for known in broker.endpoints_for(listener, listed=False)]
    return Response(
        error_code=errors.NONE,
        cluster_id=broker.image.cluster_id,
        controller_id=broker.identity.broker_id,
        brokers=brokers,
    )


def _broker(known: metadata.Response.Broker, *, is_fenced: bool) -> Response.Broker:
    return Response.Broker(
        broker_id=known.node_id, host=known.host, port=known.port, rack=known.rack, is_fenced=is_fenced
    )


def _other_endpoint(request: Request) -> Response:
    is_known = request.endpoint_type == CONTROLLERS
    why = f"endpoint_type={request.endpoint_type} is unknown; use {BROKERS} (brokers)"
    if is_known:
        why = "this is a broker, and there are no separate controllers: use --bootstrap-server, or bootstrap.servers"
    return Response(
        error_code=errors.MISMATCHED_ENDPOINT_TYPE if is_known else errors.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=why,
        endpoint_type=request.endpoint_type,
        cluster_id="",
        brokers=(),
    )
