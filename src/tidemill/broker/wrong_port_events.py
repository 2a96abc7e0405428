"""Logs clients that use the wrong port or protocol: TLS or HTTP on a Kafka port, TLS or Kafka on the HTTP port."""

from typing import Final

from tidemill.broker.repeated_events import RepeatedEvents
from tidemill.model.clock import Clock
from tidemill.telemetry.event_log import EventLog, Field
from tidemill.wire.first_bytes import ClientProtocol

NOT_KAFKA: Final = "not a Kafka client"
NOT_HTTP: Final = "not an HTTP client"


class WrongPortEvents:
    """
    Logs clients that use the wrong port or protocol.  Repeated events about the same host and mistake are collapsed.
    """

    def __init__(self, events: EventLog, clock: Clock) -> None:
        self._events = events
        self._repeated = RepeatedEvents(clock)

    def on_kafka_port(
        self, arrived: ClientProtocol, client_host: str, *, listener: str, port: int | None, http_port: int | None
    ) -> None:
        """Report a client that sent TLS or HTTP to a Kafka listener."""
        http = "HTTP is served at tidemill.http.listener" + (f", port {http_port}" if http_port else "")
        fix = http
        if arrived is ClientProtocol.TLS:
            fix = f"this port has no TLS, set security.protocol=PLAINTEXT in the Kafka client; {http}, without TLS"
        self._warn(NOT_KAFKA, arrived, client_host, {"listener": listener, "port": port, "fix": fix})

    def on_http_port(
        self, arrived: ClientProtocol, client_host: str, *, port: int | None, kafka_port: int | None
    ) -> None:
        """Report a client that sent TLS or a Kafka request to the HTTP listener."""
        kafka = "set bootstrap.servers of Kafka clients to an address in listeners"
        kafka += f", port {kafka_port}" if kafka_port else ""
        fix = kafka
        if arrived is ClientProtocol.TLS:
            fix = f"this port has no TLS, write http:// instead of https://; {kafka}, with security.protocol=PLAINTEXT"
        self._warn(NOT_HTTP, arrived, client_host, {"listener": "HTTP", "port": port, "fix": fix})

    def _warn(self, event: str, arrived: ClientProtocol, client_host: str, fields: dict[str, Field]) -> None:
        left_out = self._repeated.occurred((event, arrived, client_host))
        if left_out is None:
            return
        if left_out:
            fields["repeats_left_out"] = left_out
        self._events.warning(event, client=client_host, arrived=str(arrived), **fields)
