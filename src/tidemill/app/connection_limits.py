"""How many client connections there may be, and how long one may be idle.

Counted over all listeners.  A connection beyond a bound is closed before anything is read from it, as Kafka does it for
`max.connections.per.ip`.  One on which nothing was asked for `connections.max.idle.ms` is closed too, unless it waits
for an answer of ours.
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
SWEEP_S: Final = 1  # between looks for idle connections: looking at a thousand takes 0.1 ms


class ConnectionLimits:
    def __init__(self, layers: BrokerLayers, servers: Sequence[TcpServer], metrics: Metrics) -> None:
        """`servers` may still grow."""
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
        """Whether one more connection from `host` may be opened."""
        connections_max = self._overrides.get(host, self._connections_max_per_host)
        admits = (
            sum(len(server.writers) for server in self._servers) < self._connections_max
            and sum(server.hosts.get(host, 0) for server in self._servers) < connections_max
        )
        self._metrics.connections_refused += not admits
        return admits

    def close_idle(self, now: float) -> None:
        """`now` is on the loop's clock; called as often as one likes.  A bound below zero is none."""
        if self._idle_s_max < 0 or now - self._swept_at < SWEEP_S:
            return
        self._swept_at = now
        for server in self._servers:
            for writer, connection in [*server.writers.items()]:
                assert isinstance(connection, KafkaConnection), f"{connection} is no client's"
                if now - writer.active_at <= self._idle_s_max or connection.is_answering:
                    continue
                if writer.unsent_bytes:
                    writer.abort()  # he has not read his answers for that long, and would keep a closing socket as well
                else:
                    writer.close()


def connections_max_by_host(text: str) -> Mapping[str, int]:
    """`ADDRESS:COUNT`, apart by commas; SettingRefused otherwise."""
    found = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = pair.rpartition(":")
        if not (count.isascii() and count.isdigit()):
            raise SettingRefused(OVERRIDES, text, f"{pair!r} is not ADDRESS:COUNT, for example 127.0.0.1:100")
        try:
            address = ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            raise SettingRefused(OVERRIDES, text, f"{host!r} is no address; names are not looked up") from None
        found[str(address)] = int(count)
    return found
