"""The records of the metadata log and their encoding, which `docs/formats/metadata.md` specifies.

Records are idempotent: each record sets an absolute value, so a snapshot can be part of the log itself.  A record's key
is null; its value starts with a type byte and a version byte.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId
from tidemill.model.topic_kind import TopicKind


class MetadataFormatError(Exception):
    """
    Raised for a metadata record that this version of Tidemill cannot read.  Without the record, the broker cannot
    build an image.
    """


class Endpoint(NamedTuple):
    name: str
    host: str
    port: int
    security: str  # PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL


# Reserved endpoint names, which no listener for clients may have.
PEER_ENDPOINT: Final = "PEER"  # for connections from other brokers
HTTP_ENDPOINT: Final = "HTTP"  # health, readiness and metrics


class ConfigResource(NamedTuple):
    type: int  # TOPIC_RESOURCE, BROKER_RESOURCE or GROUP_RESOURCE
    name: str  # a topic name, a broker id ("": the default for all brokers), or a group id


# The values of Kafka's ConfigResource.Type.
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
GROUP_RESOURCE: Final = 32

Member = TypeVar("Member", bound=IntEnum)

# A topic kind is encoded as its index in this tuple.
TOPIC_KINDS: Final = (TopicKind.LOG, TopicKind.KEYED, TopicKind.TIMER)


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The first record of the metadata log: it gives the cluster its id."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class FeatureRecord:
    """Raise the cluster's feature level: from here on, records and behaviour may use any level up to `level`."""

    level: int


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    broker_id: BrokerId
    directory_id: DirectoryId
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    level: int = 1  # the highest feature level that the broker supports (`feature_levels`); above 1 from version 1 on


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic that has no partitions yet; the records of its shards follow."""

    topic_id: TopicId
    name: str
    kind: TopicKind


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """A shard and its partitions; the shards of a topic are recorded in the order of their partitions."""

    shard_id: ShardId
    topic_id: TopicId
    first_partition: int
    partition_count: int
    initial_voters: tuple[ReplicaKey, ...]  # the founders: the voters until the shard's log records a change


@dataclass(frozen=True, slots=True)
class ReplicasRecord:
    """The planned replicas of a shard; the shard's leader carries out the reassignment.

    The planned replicas of a shard without such a record are its founders.
    """

    shard_id: ShardId
    voters: tuple[ReplicaKey, ...]  # preferred leader first
    previous: tuple[ReplicaKey, ...] = ()  # planned before, to which a cancelled move returns; empty: not known
    reason: Reason = Reason.PLACED  # `previous` and another reason are written from version 1 on


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord:
    """Delete a topic with its shards and its configuration."""

    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    resource: ConfigResource
    key: str
    value: str | None  # None removes the setting


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    """All producer ids below `next_producer_id` are allocated, and the newest block belongs to `broker_id`."""

    next_producer_id: int
    broker_id: BrokerId


@dataclass(frozen=True, slots=True)
class ShardIdsRecord:
    """All shard ids below `next_shard_id` are used up, some by deleted topics.  The record occurs only in snapshots."""

    next_shard_id: ShardId


@dataclass(frozen=True, slots=True)
class SnapshotEndRecord:
    """The `record_count` records before this one are the entire state, so the log may start at the first of them."""

    record_count: int


@dataclass(frozen=True, slots=True)
class BrokerStateRecord:
    """Whether the cluster counts on a broker, and what an operator wants it to give up."""

    broker_id: BrokerId
    presence: Presence
    drain: Drain


@dataclass(frozen=True, slots=True)
class RemoveBrokerRecord:
    """Forget a broker that carries no replicas, with its configuration."""

    broker_id: BrokerId


Record = (
    ClusterRecord
    | FeatureRecord
    | BrokerRecord
    | TopicRecord
    | ShardRecord
    | ReplicasRecord
    | RemoveTopicRecord
    | ConfigRecord
    | ProducerIdsRecord
    | ShardIdsRecord
    | SnapshotEndRecord
    | BrokerStateRecord
    | RemoveBrokerRecord
)

_CLUSTER, _FEATURE, _BROKER, _TOPIC, _SHARD, _REMOVE_TOPIC, _CONFIG, _PRODUCER_IDS, _SHARD_IDS, _SNAPSHOT_END = range(
    1, 11
)
_REPLICAS: Final = 11
_BROKER_STATE: Final = 15
_REMOVE_BROKER: Final = 16

_NEWEST_VERSIONS: Final = {_BROKER: 1, _REPLICAS: 1}  # of each type of which there is more than version 0


def encode(record: Record) -> bytes:
    """Return the encoded record, which is the value of a log record with a null key."""
    out = bytearray(2)
    version = 0
    match record:
        case ClusterRecord(cluster_id):
            record_type = _CLUSTER
            _put_text(out, cluster_id)
        case FeatureRecord(level):
            record_type = _FEATURE
            _put_number(out, level)
        case BrokerRecord(broker_id, directory_id, endpoints, rack, level):
            record_type = _BROKER
            _put_number(out, broker_id)
            out += _id_bytes(directory_id)
            _put_number(out, len(endpoints))
            for endpoint in endpoints:
                _put_text(out, endpoint.name)
                _put_text(out, endpoint.host)
                _put_number(out, endpoint.port)
                _put_text(out, endpoint.security)
            _put_text_or_none(out, rack)
            if level > 1:  # older brokers read version 0 only
                version = 1
                _put_number(out, level)
        case TopicRecord(topic_id, name, kind):
            record_type = _TOPIC
            out += _id_bytes(topic_id)
            _put_text(out, name)
            out.append(TOPIC_KINDS.index(kind))
        case ShardRecord(shard_id, topic_id, first_partition, partition_count, initial_voters):
            record_type = _SHARD
            _put_number(out, shard_id)
            out += _id_bytes(topic_id)
            _put_number(out, first_partition)
            _put_number(out, partition_count)
            _put_voters(out, initial_voters)
        case ReplicasRecord(shard_id, voters, previous, reason):
            record_type = _REPLICAS
            _put_number(out, shard_id)
            _put_voters(out, voters)
            if previous or reason is not Reason.PLACED:  # older brokers read version 0 only
                version = 1
                _put_voters(out, previous)
                out.append(reason)
        case RemoveTopicRecord(topic_id):
            record_type = _REMOVE_TOPIC
            out += _id_bytes(topic_id)
        case ConfigRecord(resource, key, value):
            record_type = _CONFIG
            out.append(resource.type)
            _put_text(out, resource.name)
            _put_text(out, key)
            _put_text_or_none(out, value)
        case ProducerIdsRecord(next_producer_id, broker_id):
            record_type = _PRODUCER_IDS
            _put_number(out, next_producer_id)
            _put_number(out, broker_id)
        case ShardIdsRecord(next_shard_id):
            record_type = _SHARD_IDS
            _put_number(out, next_shard_id)
        case SnapshotEndRecord(record_count):
            record_type = _SNAPSHOT_END
            _put_number(out, record_count)
        case BrokerStateRecord(broker_id, presence, drain):
            record_type = _BROKER_STATE
            _put_number(out, broker_id)
            out.append(presence)
            out.append(drain)
        case RemoveBrokerRecord(broker_id):
            record_type = _REMOVE_BROKER
            _put_number(out, broker_id)
    out[0] = record_type
    out[1] = version
    return bytes(out)


def decode(value: bytes | memoryview) -> Record:
    """Decode the value of a record.

    Raises MetadataFormatError for a damaged record, or for one that was written by a newer version of Tidemill.
    """
    if len(value) < 2:
        raise MetadataFormatError(f"a metadata record of {len(value)} bytes has no type and version")
    record_type, version = value[0], value[1]
    read = _READERS.get(record_type)
    if read is None:
        raise MetadataFormatError(f"unknown metadata record type {record_type}: a newer version of Tidemill wrote it")
    newest = _NEWEST_VERSIONS.get(record_type, 0)
    if version > newest:
        raise MetadataFormatError(
            f"metadata record type {record_type} has version {version}; this version of Tidemill reads up to {newest}"
        )
    fields = _Fields(bytes(value[2:]), version)
    record = read(fields)
    fields.end()
    return record


class _Fields:
    """Reads a record field by field, and checks every length against the number of remaining bytes."""

    __slots__ = ("_bytes", "_position", "version")

    def __init__(self, value: bytes, version: int) -> None:
        self.version = version  # of the record's type
        self._bytes = value
        self._position = 0

    def take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._bytes):
            raise MetadataFormatError(
                f"a metadata record is truncated: it has {len(self._bytes) + 2} bytes, and a field ends at {end + 2}"
            )
        taken = self._bytes[self._position : end]
        self._position = end
        return taken

    def number(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MetadataFormatError("a number in a metadata record has more than ten bytes")

    def text(self) -> str:
        try:
            return self.take(self.number()).decode()
        except UnicodeDecodeError as error:
            raise MetadataFormatError(f"a string in a metadata record is not UTF-8: {error}") from None

    def text_or_none(self) -> str | None:
        return self.text() if self.take(1)[0] else None

    def count(self) -> int:
        count = self.number()
        if count > len(self._bytes) - self._position:
            raise MetadataFormatError(f"a metadata record of {len(self._bytes)} bytes claims to contain {count} items")
        return count

    def voters(self) -> tuple[ReplicaKey, ...]:
        return tuple(ReplicaKey(BrokerId(self.number()), DirectoryId(self.take(16))) for _ in range(self.count()))

    def member(self, kind: type[Member], what: str) -> Member:
        """Read one byte: a member of an enumeration."""
        value = self.take(1)[0]
        try:
            return kind(value)
        except ValueError:
            raise MetadataFormatError(f"unknown {what} {value}: a newer version of Tidemill wrote it") from None

    def kind(self) -> TopicKind:
        kind = self.take(1)[0]
        if kind >= len(TOPIC_KINDS):
            raise MetadataFormatError(f"unknown topic kind {kind}: a newer version of Tidemill wrote it")
        return TOPIC_KINDS[kind]

    def end(self) -> None:
        left = len(self._bytes) - self._position
        if left:
            raise MetadataFormatError(f"a metadata record has {left} bytes after its last field")


def _read_broker(fields: _Fields) -> BrokerRecord:
    broker_id, directory_id = BrokerId(fields.number()), DirectoryId(fields.take(16))
    endpoints = tuple(
        Endpoint(fields.text(), fields.text(), fields.number(), fields.text()) for _ in range(fields.count())
    )
    rack = fields.text_or_none()
    return BrokerRecord(broker_id, directory_id, endpoints, rack, fields.number() if fields.version >= 1 else 1)


def _read_shard(fields: _Fields) -> ShardRecord:
    shard_id, topic_id = ShardId(fields.number()), TopicId(fields.take(16))
    first_partition, partition_count = fields.number(), fields.number()
    return ShardRecord(shard_id, topic_id, first_partition, partition_count, fields.voters())


def _read_replicas(fields: _Fields) -> ReplicasRecord:
    shard_id, voters = ShardId(fields.number()), fields.voters()
    if fields.version == 0:
        return ReplicasRecord(shard_id, voters)
    return ReplicasRecord(shard_id, voters, fields.voters(), fields.member(Reason, "reason of a move"))


def _read_broker_state(fields: _Fields) -> BrokerStateRecord:
    broker_id = BrokerId(fields.number())
    presence, drain = fields.member(Presence, "presence of a broker"), fields.member(Drain, "drain of a broker")
    return BrokerStateRecord(broker_id, presence, drain)


_READERS: Final[dict[int, Callable[[_Fields], Record]]] = {
    _CLUSTER: lambda fields: ClusterRecord(fields.text()),
    _FEATURE: lambda fields: FeatureRecord(fields.number()),
    _BROKER: _read_broker,
    _TOPIC: lambda fields: TopicRecord(TopicId(fields.take(16)), fields.text(), fields.kind()),
    _SHARD: _read_shard,
    _REPLICAS: _read_replicas,
    _REMOVE_TOPIC: lambda fields: RemoveTopicRecord(TopicId(fields.take(16))),
    _CONFIG: lambda fields: ConfigRecord(
        ConfigResource(fields.take(1)[0], fields.text()), fields.text(), fields.text_or_none()
    ),
    _PRODUCER_IDS: lambda fields: ProducerIdsRecord(fields.number(), BrokerId(fields.number())),
    _SHARD_IDS: lambda fields: ShardIdsRecord(ShardId(fields.number())),
    _SNAPSHOT_END: lambda fields: SnapshotEndRecord(fields.number()),
    _BROKER_STATE: _read_broker_state,
    _REMOVE_BROKER: lambda fields: RemoveBrokerRecord(BrokerId(fields.number())),
}


def _put_number(out: bytearray, value: int) -> None:
    assert 0 <= value < 1 << 64, value
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _put_voters(out: bytearray, voters: tuple[ReplicaKey, ...]) -> None:
    _put_number(out, len(voters))
    for voter in voters:
        _put_number(out, voter.broker_id)
        out += _id_bytes(voter.directory_id)


def _put_text(out: bytearray, text: str) -> None:
    encoded = text.encode()
    _put_number(out, len(encoded))
    out += encoded


def _put_text_or_none(out: bytearray, text: str | None) -> None:
    out.append(text is not None)
    if text is not None:
        _put_text(out, text)


def _id_bytes(identifier: bytes) -> bytes:
    assert len(identifier) == 16, identifier
    return identifier
