"""
FindCoordinator (key 10): v0-6

Returns the coordinator of a group: the broker that leads the group's partition of `__consumer_offsets`.  The first
request creates this topic.  Transactions and share groups are refused with an error that clients do not retry: they are
not implemented.

v1  key_type
v4  many keys at once (KIP-699)
v6  key type 2: share groups (KIP-932)
"""

from typing import Final

from tidemill.broker.connection.request_context import RequestContext
from tidemill.model import errors
from tidemill.model.topic import OFFSETS_TOPIC
from tidemill.shard.pending import Pending
from tidemill.wire.messages.find_coordinator import Request, Response

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2

Coordinator = Response.Coordinator


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    keys = tuple(request.coordinator_keys) if context.version >= 4 else (request.key,)
    if request.key_type == TRANSACTION:
        code, message = (
            errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "transactions are not implemented: unset transactional.id",
        )
    elif request.key_type == SHARE:
        code, message = errors.INVALID_REQUEST, "share groups are not implemented"
    elif request.key_type != GROUP:
        code, message = errors.INVALID_REQUEST, f"key_type={request.key_type} is unknown; use {GROUP} (group)"
    else:
        pending: Pending[Response] = Pending()
        context.broker.coordinators.when_there(
            lambda: pending.complete(_answer(context, [_of_group(context, key) for key in keys]))
        )
        return pending
    return _answer(context, [_refused(key, code, message) for key in keys])


def _of_group(context: RequestContext, group_id: str) -> Coordinator:
    broker = context.broker
    image = broker.image
    topic = image.topic(OFFSETS_TOPIC)
    number = broker.coordinators.partition_of(group_id)
    if topic is None or number is None:
        return _refused(group_id, errors.COORDINATOR_NOT_AVAILABLE, f"{OFFSETS_TOPIC} does not exist yet; try again")
    leader = broker.cluster.leader_of(topic, number)
    for endpoint in broker.endpoints_for(context.connection.listener):
        if leader is not None and endpoint.node_id == leader[0]:
            return Coordinator(
                key=group_id, node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port, error_code=errors.NONE
            )
    return _refused(
        group_id, errors.COORDINATOR_NOT_AVAILABLE, f"{OFFSETS_TOPIC}-{number} has no leader at the moment; try again"
    )


def _refused(key: str, error_code: int, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error_code, error_message=message)


def _answer(context: RequestContext, found: list[Coordinator]) -> Response:
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
