"""Producer settings: Kafka's producer keys as one frozen, picklable value.

Connection keys, such as addresses, TLS and `request.timeout.ms`, are in `connection_settings`.  A producer
key is never a secret, so a reference (`setting_values`) is resolved once, when the settings are parsed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tidemill.batches.compression import Codec
from tidemill.client.failures import SettingsError
from tidemill.client.setting_values import SettingValues

IN_FLIGHT_MAX: Final = (
    5  # brokers remember only the last five batches of an idempotent producer for detecting duplicates
)
_LEVELS: Final = {Codec.GZIP: (1, 9, -1), Codec.LZ4: (1, 17, None), Codec.ZSTD: (-131_072, 22, None)}

NO_EFFECT: Final = frozenset(
    {
        "batch.num.messages",
        "linger.ms",  # rows arrive in bulk, so there is no reason to wait for more
        "max.block.ms",  # `delivery.timeout.ms` bounds every wait
        "metadata.max.idle.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queue.buffering.max.ms",
        "sticky.partitioning.linger.ms",
        "transaction.timeout.ms",
    }
)
"""Kafka producer keys that are accepted without effect."""

_REFUSED: Final = {
    "interceptor.classes": "records are encoded in bulk and interceptors are not called; leave the key out",
    "key.serializer": "keys are strings or binary and are sent as they are; use DataFrame operations to serialize them",
    "partitioner.class": (
        "a Java class cannot be loaded; leave the key out to route by murmur2 of the record's key, as Java does, or "
        "add a column 'partition'"
    ),
    "transactional.id": "writes are at-least-once; transactions are not implemented yet; leave the key out",
    "value.serializer": (
        "values are strings or binary and are sent as they are; use DataFrame operations to serialize them"
    ),
}

_KNOWN: Final = frozenset(
    {
        "acks",
        "batch.size",
        "buffer.memory",
        "compression.codec",
        "compression.gzip.level",
        "compression.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delivery.timeout.ms",
        "enable.idempotence",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "message.max.bytes",
        "message.timeout.ms",
        "partitioner",
        "partitioner.ignore.keys",
        "request.required.acks",
        "retries",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """Compression, sizes, limits and times of a producer.  Times are in milliseconds, sizes in bytes."""

    codec: Codec = Codec.NONE
    level: int | None = None  # None: the codec's default
    batch_bytes: int = 1 << 20  # batch.size: a batch has at most this size before compression
    request_bytes_max: int = 4 << 20  # max.request.size: limits the batches of a request in total, and so each record
    buffer_bytes: int = 32 << 20  # buffer.memory: batches that wait or are in flight
    delivery_timeout_ms: int = 120_000
    in_flight_max: int = IN_FLIGHT_MAX  # requests in flight per connection
    retries_max: int | None = None  # None: only `delivery_timeout_ms` limits retries
    is_idempotent: bool = True
    are_keys_ignored: bool = False  # partitioner.ignore.keys: rows with a key are routed like rows without a key


def from_keys(keys: Mapping[str, str]) -> ProducerSettings:
    """
    Return the settings for `keys`: Kafka producer keys without the `kafka.` prefix that Spark options have.

    librdkafka's names of these keys are accepted as well.  Raise SettingsError for a key or value that is not
    supported; its message names the key, the value and the fix.
    """
    values = SettingValues(keys)
    for key, fix in _REFUSED.items():
        if key in values:
            raise SettingsError(f"{values.shown(key)} is not supported: {fix}")
    _check_acks(values)
    _check_partitioner(values)
    codec = _codec(values)
    is_idempotent = values.truth("enable.idempotence", default=True)
    return ProducerSettings(
        codec=codec,
        level=_level(values, codec),
        batch_bytes=values.number("batch.size", 1 << 20),
        request_bytes_max=values.number(_first(values, "max.request.size", "message.max.bytes"), 4 << 20),
        buffer_bytes=values.number("buffer.memory", 32 << 20),
        delivery_timeout_ms=values.number(_first(values, "delivery.timeout.ms", "message.timeout.ms"), 120_000),
        in_flight_max=_in_flight_max(values, is_idempotent=is_idempotent),
        retries_max=_retries_max(values, is_idempotent=is_idempotent),
        is_idempotent=is_idempotent,
        are_keys_ignored=values.truth("partitioner.ignore.keys", default=False),
    )


def unknown_keys(keys: Collection[str]) -> tuple[str, ...]:
    """Return the sorted keys that are not producer keys.  The caller checks whether they are connection keys."""
    return tuple(sorted(key for key in keys if key not in _KNOWN and key not in NO_EFFECT))


def _first(values: SettingValues, *names: str) -> str:
    """Return the first of a key's names that is set, or else the key's usual name, which is listed first."""
    return next((name for name in names if name in values), names[0])


def _check_acks(values: SettingValues) -> None:
    for key in ("acks", "request.required.acks"):
        if values.get(key, "all").strip().lower() not in ("all", "-1"):
            raise SettingsError(
                f"{values.shown(key)} is not supported: a write is complete only when all in-sync replicas have every "
                f"record; set {key}=all or leave it out"
            )


def _check_partitioner(values: SettingValues) -> None:
    if values.get("partitioner", "murmur2_random").strip().lower() not in ("murmur2", "murmur2_random"):
        raise SettingsError(
            f"{values.shown('partitioner')} is not supported: records with a key are routed by murmur2, as in Java; "
            "set partitioner=murmur2_random, or add a column 'partition'"
        )


def _codec(values: SettingValues) -> Codec:
    key = _first(values, "compression.codec", "compression.type")
    name = values.get(key, "none").strip().upper()
    if name not in Codec.__members__:
        raise SettingsError(f"{values.shown(key)} is unknown: use none, gzip, snappy, lz4 or zstd")
    return Codec[name]


def _level(values: SettingValues, codec: Codec) -> int | None:
    """Return the codec's level; the level keys of other codecs have no effect, as in Java's producer."""
    for key in (f"compression.{codec.name.lower()}.level", "compression.level"):
        if key not in values or codec not in _LEVELS:
            continue
        lowest, highest, default = _LEVELS[codec]
        value = values[key].strip()
        if not value.removeprefix("-").isdecimal():
            raise SettingsError(f"{values.shown(key)} must be a whole number")
        level = int(value)
        if level == -1 and default is None and codec != Codec.ZSTD:
            return None
        if level != default and not lowest <= level <= highest:
            raise SettingsError(
                f"{values.shown(key)} is out of range: {codec.name.lower()} has levels {lowest} to {highest}"
            )
        return level
    return None


def _in_flight_max(values: SettingValues, *, is_idempotent: bool) -> int:
    if not is_idempotent:
        return 1  # without sequence numbers, several requests in flight could change the order of records
    key = _first(values, "max.in.flight.requests.per.connection", "max.in.flight")
    wanted = values.number(key, IN_FLIGHT_MAX)
    if wanted > IN_FLIGHT_MAX:
        raise SettingsError(
            f"{values.shown(key)} is too large: brokers find duplicates only in the last {IN_FLIGHT_MAX} batches; set "
            f"at most {IN_FLIGHT_MAX}"
        )
    return wanted


def _retries_max(values: SettingValues, *, is_idempotent: bool) -> int | None:
    value = values.get("retries")
    if value is None:
        return None
    if not value.strip().isdecimal() or (int(value) == 0 and is_idempotent):
        raise SettingsError(
            f"{values.shown('retries')} must be a whole number above 0, or 0 with enable.idempotence=false; leave it "
            "out, because delivery.timeout.ms limits retries"
        )
    return int(value)
