"""Connection settings: Kafka's consumer keys as one frozen, picklable value.

Values that refer to the environment or to files (`setting_values`) are pickled as references.  The code that opens a
connection calls `resolved` first.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from tidemill.client import sasl_settings, tls_settings
from tidemill.client.failures import SettingsError
from tidemill.client.sasl_settings import SaslSettings
from tidemill.client.security_keys import SECURITY_KEYS, Use, is_security_key
from tidemill.client.setting_values import SettingValues, is_reference
from tidemill.client.tls_settings import TlsSettings

_LOG = logging.getLogger(__name__)

DEFAULT_PORT: Final = 9092

NO_EFFECT: Final = frozenset(
    {
        "allow.auto.create.topics",  # the client never creates topics
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
        "max.poll.records",  # the client reads whole batches
        "metadata.max.age.ms",  # metadata is refreshed when a leader moves, and when a read is planned
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
"""Kafka consumer keys that are accepted without effect."""


class Endpoint(NamedTuple):
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Addresses, TLS, login, timeouts and limits of a client's connections.  Times are in milliseconds, sizes in bytes.

    If `unresolved` is not empty, some values are references, and the fields of those keys are not valid yet.
    """

    bootstrap: tuple[Endpoint, ...]
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None
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
    was_reached: bool = False  # a broker has responded to another process of the same job, such as Spark's driver
    unresolved: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # all keys with their values, as given

    def resolved(self) -> "ConnectionSettings":
        """
        Return settings in which references are replaced by their current values in this process.

        Raise SettingsError for a missing variable or file, and for a value that is not supported.
        """
        if not self.unresolved:
            return self
        return replace(_parsed(SettingValues(dict(self.unresolved))), was_reached=self.was_reached)

    def reached(self) -> "ConnectionSettings":
        """
        Return settings for a later part of a job that has reached the cluster, so that the later part waits for
        brokers.
        """
        return replace(self, was_reached=True)


def from_keys(keys: Mapping[str, str]) -> ConnectionSettings:
    """
    Return the settings for `keys`: Kafka consumer keys without the `kafka.` prefix that Spark options have.

    Raise SettingsError for a value that is not supported; its message names the key, the value and the fix.  References
    are not resolved: `resolved` checks their values, and the security keys that are used with them.
    """
    literal = {key: str(value) for key, value in keys.items() if not is_reference(key, str(value))}
    if len(literal) == len(keys):
        return _parsed(SettingValues(literal))
    _refuse(SettingValues(literal))
    unresolved = tuple(sorted((key, str(value)) for key, value in keys.items()))
    checked = SettingValues({key: value for key, value in literal.items() if not is_security_key(key)})
    bootstrap = () if "bootstrap.servers" not in literal and "bootstrap.servers" in keys else _endpoints(checked)
    return _general(checked, bootstrap, unresolved=unresolved)


def unknown_keys(keys: Mapping[str, str]) -> tuple[str, ...]:
    """Return the sorted keys that are neither used nor known to have no effect.  They are probably misspelt."""
    return tuple(sorted(key for key in keys if not (key in OBEYED or key in NO_EFFECT or key in SECURITY_KEYS)))


def _parsed(values: SettingValues) -> ConnectionSettings:
    _refuse(values)
    protocol = values.choice("security.protocol", _PROTOCOLS, "PLAINTEXT")
    has_tls, has_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    _warn_of_unused(values, protocol, has_tls=has_tls, has_sasl=has_sasl)
    return _general(
        values,
        _endpoints(values),
        tls=tls_settings.from_values(values) if has_tls else None,
        sasl=sasl_settings.from_values(values) if has_sasl else None,
    )


def _general(
    values: SettingValues,
    bootstrap: tuple[Endpoint, ...],
    *,
    tls: TlsSettings | None = None,
    sasl: SaslSettings | None = None,
    unresolved: tuple[tuple[str, str], ...] = (),
) -> ConnectionSettings:
    isolation = values.choice("isolation.level", ("read_uncommitted", "read_committed"), "read_uncommitted")
    return ConnectionSettings(
        bootstrap=bootstrap,
        tls=tls,
        sasl=sasl,
        client_id=values.get("client.id", "tidemill"),
        connect_timeout_ms=values.number("socket.connection.setup.timeout.ms", 10_000),
        request_timeout_ms=values.number("request.timeout.ms", 30_000),
        api_timeout_ms=values.number("default.api.timeout.ms", 60_000),
        retry_backoff_ms=values.number("retry.backoff.ms", 100),
        retry_backoff_ms_max=values.number("retry.backoff.max.ms", 1_000),
        fetch_wait_ms_max=values.number("fetch.max.wait.ms", 500),
        fetch_bytes_max=min(
            values.number("fetch.max.bytes", 8 << 20), values.number("max.partition.fetch.bytes", 8 << 20)
        ),
        is_read_committed=isolation == "read_committed",
        is_crc_checked=values.get("check.crcs", "true").strip().lower() != "false",
        unresolved=unresolved,
    )


def _refuse(values: SettingValues) -> None:
    """Raise SettingsError for the first key that this client refuses."""
    for name in sorted(values):
        row = SECURITY_KEYS.get(name)
        if row is not None and row.use is Use.REFUSED and values[name] not in row.allowed:
            raise SettingsError(f"{values.shown(name)} is not supported: {row.text}")


def _warn_of_unused(values: SettingValues, protocol: str, *, has_tls: bool, has_sasl: bool) -> None:
    """Log TLS or SASL keys that the security protocol does not use: probably security.protocol was forgotten."""
    for prefix, is_used, protocols in (("ssl.", has_tls, "SSL or SASL_SSL"), ("sasl.", has_sasl, "SASL_SSL")):
        given = [name for name in sorted(values) if name.startswith(prefix)]
        if given and not is_used:
            _LOG.warning(
                "%s has no effect: security.protocol=%s does not use it; set %s",
                given[0],
                protocol,
                protocols,
            )


_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OBEYED: Final = frozenset(
    {
        "bootstrap.servers",
        "check.crcs",
        "client.id",
        "default.api.timeout.ms",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "socket.connection.setup.timeout.ms",
    }
)


def _endpoints(values: SettingValues) -> tuple[Endpoint, ...]:
    servers = values.get("bootstrap.servers", "")
    endpoints = []
    for server in filter(None, (part.strip() for part in servers.split(","))):
        address = server.rsplit("://", 1)[-1]  # Kafka allows LISTENER://host:port
        host, colon, port = address.rpartition(":")
        if not colon or (address.startswith("[") and address.endswith("]")):
            host, port = address, str(DEFAULT_PORT)
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            shown = values.shown("bootstrap.servers")
            raise SettingsError(f"{shown}{f': {server!r}' if shown.endswith(servers) else ''} is not HOST:PORT")
        endpoints.append(Endpoint(host.strip("[]"), int(port)))
    if not endpoints:
        raise SettingsError(f"bootstrap.servers={servers!r} has no broker: use HOST:PORT,HOST:PORT")
    return tuple(endpoints)
