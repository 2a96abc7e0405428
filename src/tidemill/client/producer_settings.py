"""Producer settings: Kafka's producer keys as one frozen, picklable value.

Connection keys, such as addresses, TLS and `request.timeout.ms`, are in `connection_settings`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tidemill.batches.compression import Codec
from tidemill.client.failures import SettingsError

IN_FLIGHT_MAX: Final = (
    5  # brokers remember the last five batches of an idempotent producer, and find duplicates in these
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
"""Keys of Kafka producers that are accepted without effect."""

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
    request_bytes_max: int = 4 << 20  # max.request.size: of the batches in a Produce request, and so of a record
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
    for key, fix in _REFUSED.items():
        if key in keys:
            raise SettingsError(f"{key}={keys[key]} is not supported: {fix}")
    _check_acks(keys)
    _check_partitioner(keys)
    codec = _codec(keys)
    is_idempotent = _truth(keys, "enable.idempotence", default=True)
    return ProducerSettings(
        codec=codec,
        level=_level(keys, codec),
        batch_bytes=_number(keys, ("batch.size",), 1 << 20),
        request_bytes_max=_number(keys, ("max.request.size", "message.max.bytes"), 4 << 20),
        buffer_bytes=_number(keys, ("buffer.memory",), 32 << 20),
        delivery_timeout_ms=_number(keys, ("delivery.timeout.ms", "message.timeout.ms"), 120_000),
        in_flight_max=_in_flight_max(keys, is_idempotent=is_idempotent),
        retries_max=_retries_max(keys, is_idempotent=is_idempotent),
        is_idempotent=is_idempotent,
        are_keys_ignored=_truth(keys, "partitioner.ignore.keys", default=False),
    )


def unknown_keys(keys: Collection[str]) -> tuple[str, ...]:
    """Return the sorted keys that are not producer keys.  The caller checks whether they are connection keys."""
    return tuple(sorted(key for key in keys if key not in _KNOWN and key not in NO_EFFECT))


def _check_acks(keys: Mapping[str, str]) -> None:
    for key in ("acks", "request.required.acks"):
        if keys.get(key, "all").strip().lower() not in ("all", "-1"):
            raise SettingsError(
                f"{key}={keys[key]} is not supported: a write is complete only when all in-sync replicas have every "
                f"record; set {key}=all or leave it out"
            )


def _check_partitioner(keys: Mapping[str, str]) -> None:
    partitioner = keys.get("partitioner", "murmur2_random").strip().lower()
    if partitioner not in ("murmur2", "murmur2_random"):
        raise SettingsError(
            f"partitioner={keys['partitioner']} is not supported: records with a key are routed by murmur2, as in "
            "Java; set partitioner=murmur2_random, or add a column 'partition'"
        )


def _codec(keys: Mapping[str, str]) -> Codec:
    key = "compression.codec" if "compression.codec" in keys else "compression.type"
    name = keys.get(key, "none").strip().upper()
    if name not in Codec.__members__:
        raise SettingsError(f"{key}={keys[key]} is unknown: use none, gzip, snappy, lz4 or zstd")
    return Codec[name]


def _level(keys: Mapping[str, str], codec: Codec) -> int | None:
    """Return the codec's level; the level keys of other codecs have no effect, as in Java's producer."""
    for key in (f"compression.{codec.name.lower()}.level", "compression.level"):
        if key not in keys or codec not in _LEVELS:
            continue
        lowest, highest, default = _LEVELS[codec]
        value = keys[key].strip()
        if not value.removeprefix("-").isdecimal():
            raise SettingsError(f"{key}={keys[key]} must be a whole number")
        level = int(value)
        if level == -1 and default is None and codec != Codec.ZSTD:
            return None
        if level != default and not lowest <= level <= highest:
            raise SettingsError(f"{key}={level} is out of range: {codec.name.lower()} has levels {lowest} to {highest}")
        return level
    return None


def _in_flight_max(keys: Mapping[str, str], *, is_idempotent: bool) -> int:
    names = ("max.in.flight.requests.per.connection", "max.in.flight")
    if not is_idempotent:
        return 1  # without sequence numbers, several requests in flight could change the order of records
    wanted = _number(keys, names, IN_FLIGHT_MAX)
    if wanted > IN_FLIGHT_MAX:
        key = next(name for name in names if name in keys)
        raise SettingsError(
            f"{key}={wanted} is too large: brokers find duplicates only in the last {IN_FLIGHT_MAX} batches; set at "
            f"most {IN_FLIGHT_MAX}"
        )
    return wanted


def _retries_max(keys: Mapping[str, str], *, is_idempotent: bool) -> int | None:
    value = keys.get("retries")
    if value is None:
        return None
    if not value.strip().isdecimal() or (int(value) == 0 and is_idempotent):
        raise SettingsError(
            f"retries={value} must be a whole number above 0, or 0 with enable.idempotence=false; leave it out, "
            "because delivery.timeout.ms limits retries"
        )
    return int(value)


def _truth(keys: Mapping[str, str], key: str, *, default: bool) -> bool:
    value = keys.get(key, str(default)).strip().lower()
    if value not in ("true", "false"):
        raise SettingsError(f"{key}={keys[key]} must be true or false")
    return value == "true"


def _number(keys: Mapping[str, str], names: tuple[str, ...], default: int) -> int:
    for key in names:
        value = keys.get(key)
        if value is not None:
            if not value.strip().isdecimal() or int(value) == 0:
                raise SettingsError(f"{key}={value} must be a whole number above 0")
            return int(value)
    return default
