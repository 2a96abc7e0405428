"""Refuses members of groups whose protocol is not implemented, so that the client reports an error instead of waiting.

Brokers offer the heartbeat APIs of these protocols only to refuse them: without these APIs in ApiVersions, librdkafka's
consumers look up the coordinator and then wait without an error.
"""

from typing import Final

from tidemill.broker.rate_limited_events import RateLimitedEvents
from tidemill.model.clock import Clock
from tidemill.telemetry.event_log import EventLog

CLIENT_IDS_MAX: Final = 256  # how many of the most recently logged client ids are remembered

CONSUMER_PROTOCOL: Final = (
    "the consumer protocol of KIP-848 (ConsumerGroupHeartbeat) is not implemented: set group.protocol=classic in the "
    "consumer"
)


class UnbuiltProtocols:
    """Logs that a client's group protocol was refused, once per client id."""

    def __init__(self, clock: Clock, events: EventLog) -> None:
        self._events = events
        self._rate = RateLimitedEvents(clock)
        self._logged: dict[str, None] = {}  # client ids, oldest first

    def refused(self, problem: str, group_id: str, client_id: str, client: str) -> None:
        """Log the refusal unless the client id has been logged.  `client` is the client's host."""
        if client_id in self._logged or not self._rate.may_log():
            return
        self._logged[client_id] = None
        if len(self._logged) > CLIENT_IDS_MAX:
            del self._logged[next(iter(self._logged))]
        self._events.warning(
            "group protocol is not implemented", client_id=client_id, client=client, group=group_id, problem=problem
        )
