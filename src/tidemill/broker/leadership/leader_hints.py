"""Who leads instead: what Produce and Fetch tell a client that has come to the wrong broker.  KIP-951.

It may go there at once, without asking for metadata first.  A leader is named with its confirmed epoch, as one pair,
and only with the endpoint at which the client reaches it.
"""

from typing import Final

from tidemill.broker.connection.request_context import RequestContext
from tidemill.broker.leadership.leader_table import Leader
from tidemill.model import errors
from tidemill.wire.messages import metadata

WRONG_LEADER: Final = frozenset({errors.NOT_LEADER_OR_FOLLOWER, errors.FENCED_LEADER_EPOCH})


class LeaderHints:
    """Of one response."""

    def __init__(self, context: RequestContext) -> None:
        self._broker = context.broker
        self._listener = context.connection.listener
        self._reachable: dict[int, metadata.Response.Broker] | None = None
        self._named: dict[int, metadata.Response.Broker] = {}

    def of(self, topic: str | None, number: int) -> Leader | None:
        """None: nobody is known that leads it and can be reached."""
        broker = self._broker
        known = None if topic is None else broker.image.topic(topic)
        leader = None if known is None else broker.cluster.leader_of(known, number)
        if leader is None:
            return None
        if self._reachable is None:
            self._reachable = {it.node_id: it for it in broker.endpoints_for(self._listener)}
        endpoint = self._reachable.get(leader.broker_id)
        if endpoint is None:
            return None
        self._named[leader.broker_id] = endpoint
        return leader

    def endpoints(self) -> list[metadata.Response.Broker]:
        """Of everybody who was named, once."""
        return list(self._named.values())
