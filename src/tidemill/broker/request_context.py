"""What a handler knows besides its request: who asks, where, when, and the broker."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemill.broker.broker import Broker
    from tidemill.broker.kafka_connection import KafkaConnection


class RequestContext:
    """One per request.  `now_ms` is wall clock."""

    __slots__ = ("broker", "client_id", "connection", "now_ms", "version")

    def __init__(
        self, broker: "Broker", connection: "KafkaConnection", version: int, client_id: str | None, now_ms: int
    ) -> None:
        self.broker = broker
        self.connection = connection
        self.version = version
        self.client_id = client_id
        self.now_ms = now_ms
