"""Leader hints: the wrong broker names the broker that leads the partition (KIP-951), in responses of Produce, Fetch,
ShareFetch and ShareAcknowledge.

The client may then send its request to that broker without first sending a Metadata request.  A hint contains the
leader and its confirmed epoch as one pair, and is given only if the leader has a listener with the same name as the
client's.
"""

from collections.abc import Iterable
from typing import Any, Final

from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.wire.messages import fetch, metadata, produce, share_acknowledge, share_fetch

WRONG_LEADER: Final = frozenset({errors.NOT_LEADER_OR_FOLLOWER, errors.FENCED_LEADER_EPOCH})

_Response = fetch.Response | produce.Response | share_acknowledge.Response | share_fetch.Response

Misdirected = tuple[str | None, int, Any]
"""
Topic name (None if unknown), partition, and the part of a response that refuses this partition with one of
`WRONG_LEADER`.
"""


def add_leader_hints(
    context: RequestContext,
    response: type[_Response],
    misdirected: Iterable[Misdirected],
) -> list[Any]:
    """
    Set `current_leader` for each partition whose leader is known, and return the endpoint of each of these leaders
    once.

    `response` is the response's class, which contains the classes of the nested structs.
    """
    broker = context.broker
    partition_response = response.Topic.Partition
    reachable: dict[int, metadata.Response.Broker] | None = None
    named: dict[int, metadata.Response.Broker] = {}
    for topic, number, answer in misdirected:
        known = None if topic is None else broker.image.topic(topic)
        leader = None if known is None else broker.cluster.leader_of(known, number)
        if leader is None:
            continue
        if reachable is None:
            reachable = {it.node_id: it for it in broker.endpoints_for(context.connection.listener)}
        endpoint = reachable.get(leader.broker_id)
        if endpoint is not None:
            named[leader.broker_id] = endpoint
            answer.current_leader = partition_response.CurrentLeader(
                leader_id=leader.broker_id, leader_epoch=leader.term
            )
    return [
        response.NodeEndpoint(node_id=it.node_id, host=it.host, port=it.port, rack=it.rack) for it in named.values()
    ]
