"""
FindCoordinator (key 10): v0-6

Returns the broker that coordinates each key: the leader of the partition of an internal topic to which the key hashes.
The first request creates the internal topic.  Transactions are not implemented yet, and the state of share groups has
no coordinator: these key types are refused with errors that clients do not retry.

v1  key_type
v4  many keys in one request (KIP-699)
v6  key type 2: share groups (KIP-932)
"""

from typing import Any, Final

from tidemill.broker.coordinators.hosted_topic import HostedTopic
from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.shard.pending import Pending
from tidemill.wire.messages.find_coordinator import Request, Response

Coordinator = Response.Coordinator

# Errors for Kafka's key types that have no coordinator yet.
REFUSALS: Final = {
    1: (errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not built yet"),
    2: (errors.INVALID_REQUEST, "the state of a share group is in the log of each partition: it has no coordinator"),
}


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    keys = tuple(request.coordinator_keys) if context.version >= 4 else (request.key,)
    hosted = context.broker.coordinators.of_key_type(request.key_type)
    if hosted is None:
        unknown = (errors.INVALID_REQUEST, f"key type {request.key_type} is not known")
        code, message = REFUSALS.get(request.key_type, unknown)
        return _response(context, [_refused(key, code, message) for key in keys])
    pending: Pending[Response] = Pending()
    hosted.when_created(lambda: pending.complete(_response(context, [_located(context, hosted, key) for key in keys])))
    return pending


def _located(context: RequestContext, hosted: HostedTopic[Any, Any], key: str) -> Coordinator:
    broker = context.broker
    topic, number = hosted.topic, hosted.partition_of(key)
    if topic is None or number is None:
        name = hosted.registration.topic.name
        return _refused(key, errors.COORDINATOR_NOT_AVAILABLE, f"topic {name} does not exist yet")
    leader = broker.cluster.leader_of(topic, number)
    for endpoint in broker.endpoints_for(context.connection.listener):
        if leader is not None and endpoint.node_id == leader[0]:
            return Coordinator(
                key=key, node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port, error_code=errors.NONE
            )
    return _refused(key, errors.COORDINATOR_NOT_AVAILABLE, f"{topic.name}-{number} has no leader now")


def _refused(key: str, error_code: int, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error_code, error_message=message)


def _response(context: RequestContext, found: list[Coordinator]) -> Response:
    if context.version >= 4:
        return Response(coordinators=found)
    only = found[0]
    return Response(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
