"""Connection settings: Kafka's consumer keys as one frozen, picklable value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidemill.client import tls_settings
from tidemill.client.failures import SettingsError
from tidemill.client.tls_settings import TlsSettings

DEFAULT_PORT: Final = 9092

NO_EFFECT: Final = frozenset(
    {
        "allow.auto.create.topics",  # a reader never creates topics
        "api.version.request",
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "broker.address.family",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.min.bytes",
        "group.id",  # Spark tracks offsets in its checkpoint, so the client joins no group and commits no offsets
        "group.instance.id",
        "group.protocol",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",  # whole batches are read
        "metadata.max.age.ms",  # metadata is refreshed when a leader moves, and for each plan
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",  # the kernel sizes the buffer automatically
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
    }
)
"""Keys of Kafka consumers that are accepted without effect."""


class Endpoint(NamedTuple):
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Addresses, TLS, timeouts and limits of a client's connections.  Times are in milliseconds, sizes in bytes."""

    bootstrap: tuple[Endpoint, ...]
    tls: TlsSettings | None = None
    client_id: str = "tidemill"
    connect_timeout_ms: int = 10_000  # socket.connection.setup.timeout.ms
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000  # default.api.timeout.ms: how long one call may retry
    retry_backoff_ms: int = 100
    retry_backoff_ms_max: int = 1_000
    fetch_wait_ms_max: int = 500
    fetch_bytes_max: int = 8 << 20  # per response and per partition; large enough to decode at full speed
    is_read_committed: bool = False
    is_crc_checked: bool = True


def from_keys(keys: Mapping[str, str]) -> ConnectionSettings:
    """
    Return the settings for `keys`: Kafka consumer keys without the `kafka.` prefix that Spark options have.

    Raise SettingsError for a value that is not supported; its message names the key, the value and the fix.
    """
    protocol = keys.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in ("PLAINTEXT", "SSL"):
        raise SettingsError(
            f"security.protocol={keys['security.protocol']} is not supported: use PLAINTEXT or SSL"
            + (" with client certificates; SASL is not implemented yet" if protocol.startswith("SASL") else "")
        )
    sasl_keys = sorted(key for key in keys if key.startswith("sasl."))
    if sasl_keys:
        raise SettingsError(f"{sasl_keys[0]} is not supported: SASL is not implemented yet; leave it out")
    isolation = keys.get("isolation.level", "read_uncommitted").strip().lower()
    if isolation not in ("read_uncommitted", "read_committed"):
        raise SettingsError(f"isolation.level={isolation} is unknown: use read_uncommitted or read_committed")
    return ConnectionSettings(
        bootstrap=_endpoints(keys.get("bootstrap.servers", "")),
        tls=tls_settings.from_keys(keys) if protocol == "SSL" else None,
        client_id=keys.get("client.id", "tidemill"),
        connect_timeout_ms=_number(keys, "socket.connection.setup.timeout.ms", 10_000),
        request_timeout_ms=_number(keys, "request.timeout.ms", 30_000),
        api_timeout_ms=_number(keys, "default.api.timeout.ms", 60_000),
        retry_backoff_ms=_number(keys, "retry.backoff.ms", 100),
        retry_backoff_ms_max=_number(keys, "retry.backoff.max.ms", 1_000),
        fetch_wait_ms_max=_number(keys, "fetch.max.wait.ms", 500),
        fetch_bytes_max=min(
            _number(keys, "fetch.max.bytes", 8 << 20), _number(keys, "max.partition.fetch.bytes", 8 << 20)
        ),
        is_read_committed=isolation == "read_committed",
        is_crc_checked=keys.get("check.crcs", "true").strip().lower() != "false",
    )


def unknown_keys(keys: Mapping[str, str]) -> tuple[str, ...]:
    """Return the sorted keys that are neither used nor known to have no effect.  They are probably misspelt."""
    return tuple(
        sorted(k for k in keys if k not in _OBEYED and k not in NO_EFFECT and not k.startswith(("ssl.", "sasl.")))
    )


_OBEYED: Final = frozenset(
    {
        "bootstrap.servers",
        "check.crcs",
        "client.id",
        "default.api.timeout.ms",
        "enable.ssl.certificate.verification",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
    }
)


def _endpoints(servers: str) -> tuple[Endpoint, ...]:
    endpoints = []
    for server in filter(None, (part.strip() for part in servers.split(","))):
        address = server.rsplit("://", 1)[-1]  # Kafka allows LISTENER://host:port
        host, colon, port = address.rpartition(":")
        if not colon or (address.startswith("[") and address.endswith("]")):
            host, port = address, str(DEFAULT_PORT)
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise SettingsError(f"bootstrap.servers={servers}: {server!r} is not HOST:PORT")
        endpoints.append(Endpoint(host.strip("[]"), int(port)))
    if not endpoints:
        raise SettingsError(f"bootstrap.servers={servers!r} has no broker: use HOST:PORT,HOST:PORT")
    return tuple(endpoints)


def _number(keys: Mapping[str, str], key: str, default: int) -> int:
    value = keys.get(key)
    if value is None:
        return default
    if not value.strip().isdecimal() or int(value) == 0:
        raise SettingsError(f"{key}={value} must be a whole number above 0")
    return int(value)
