"""Limits the number of client connections and their idle time.

Connections are counted across all listeners.  A connection beyond a limit is closed before anything is read from it, as
Kafka does for `max.connections.per.ip`.  A connection that is idle for `connections.max.idle.ms` is closed, unless it
is waiting for a response.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Final

from tidemill.app.listeners import SettingRefused
from tidemill.broker.connection.kafka_connection import KafkaConnection
from tidemill.model.config_resolution import BrokerLayers, broker_int, broker_value
from tidemill.runtime.tcp_server import TcpServer
from tidemill.telemetry.metrics import Metrics

OVERRIDES: Final = "max.connections.per.ip.overrides"
SWEEP_S: Final = 1  # interval between sweeps for idle connections


class ConnectionLimits:
    def __init__(self, layers: BrokerLayers, servers: Sequence[TcpServer], metrics: Metrics) -> None:
        """Limit the connections of all `servers`, a list to which the caller may add servers later."""
        self._metrics = metrics
        self._servers = servers
        self._connections_max = broker_int(layers, "max.connections")
        self._connections_max_per_host = broker_int(layers, "max.connections.per.ip")
        overrides = broker_value(layers, OVERRIDES)
        assert isinstance(overrides, str), OVERRIDES
        self._overrides = connections_max_by_host(overrides)
        self._idle_s_max = broker_int(layers, "connections.max.idle.ms") / 1000
        self._swept_at = 0.0

    def admit(self, host: str) -> bool:
        """Return whether one more connection from `host` is allowed."""
        connections_max = self._overrides.get(host, self._connections_max_per_host)
        admits = (
            sum(len(server.writers) for server in self._servers) < self._connections_max
            and sum(server.hosts.get(host, 0) for server in self._servers) < connections_max
        )
        self._metrics.connections_refused += not admits
        return admits

    def close_idle(self, now: float) -> None:
        """Close idle connections, at most once per SWEEP_S; `now` is the time on the loop's clock.

        If the limit on the idle time is negative, no connection is closed.
        """
        if self._idle_s_max < 0 or now - self._swept_at < SWEEP_S:
            return
        self._swept_at = now
        for server in self._servers:
            for writer, connection in [*server.writers.items()]:
                assert isinstance(connection, KafkaConnection), f"{connection} is not a client's connection"
                if now - writer.active_at <= self._idle_s_max or connection.is_answering:
                    continue
                if writer.unsent_bytes:
                    writer.abort()  # The client does not read its responses, so a flush would never end.
                else:
                    writer.close()


def connections_max_by_host(text: str) -> Mapping[str, int]:
    """Parse comma-separated `ADDRESS:COUNT` pairs; raises SettingRefused."""
    found = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = pair.rpartition(":")
        if not (count.isascii() and count.isdigit()):
            raise SettingRefused(OVERRIDES, text, f"{pair!r} is not ADDRESS:COUNT, for example 127.0.0.1:100")
        try:
            address = ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            raise SettingRefused(
                OVERRIDES, text, f"{host!r} is not an IP address; host names are not resolved"
            ) from None
        found[str(address)] = int(count)
    return found
