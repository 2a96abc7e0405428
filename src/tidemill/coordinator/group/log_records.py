"""The encoding of `__consumer_offsets`: Kafka's keys and values, and Tidemill's own record that closes a snapshot.

Every key and value begins with an int16 version; the version of a key identifies the type of the record.  Tidemill
reads all of Kafka's value versions, and it writes those of Kafka 4.3: offset value 4 and group value 3.  If the client
requested a retention, Kafka writes offset value 1, which has no topic id; Tidemill adds its own tagged field to value 4
instead.  Keys of Kafka's other group types are ignored.  A key without a value is a tombstone.  The format is specified
in `docs/formats/consumer_offsets.md`.
"""

import struct
from dataclasses import dataclass

from tidemill.coordinator.record_fields import (
    INT16,
    INT32,
    INT64,
    BadRecord,
    RecordReader,
    nullable_string,
    string,
    tagged,
    unsigned_varint,
)
from tidemill.coordinator.result import LogRecord
from tidemill.model.topic import NO_TOPIC_ID, TopicId

OFFSET_KEY_VERSIONS = (0, 1)
OFFSET_KEY_VERSION = 1
OFFSET_VALUE_VERSIONS = range(5)
OFFSET_VALUE_VERSION = 4
GROUP_KEY_VERSION = 2
GROUP_VALUE_VERSIONS = range(5)
GROUP_VALUE_VERSION = 3
SNAPSHOT_END_KEY_VERSION = 32_000  # far above Kafka's own key versions; Kafka's tools ignore unknown ones
SNAPSHOT_END_VALUE_VERSION = 0

_TOPIC_ID_TAG = 0
# A tag of Tidemill's own: Kafka has an expiry time only in version 1 of offset values, which has no leader epoch and no
# topic id.
_EXPIRY_TAG = 10_000


@dataclass(slots=True, kw_only=True)
class OffsetKey:
    group_id: str
    topic: str
    partition: int


@dataclass(slots=True, kw_only=True)
class CommittedOffset:
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_at_ms: int
    expires_at_ms: int = -1  # -1: the broker's retention applies
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(slots=True, kw_only=True)
class GroupKey:
    group_id: str


@dataclass(slots=True, kw_only=True)
class LoggedMember:
    member_id: str
    instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int = -1
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(slots=True, kw_only=True)
class GroupMetadata:
    protocol_type: str
    generation: int
    protocol_name: str | None
    leader: str | None
    state_since_ms: int = -1
    members: tuple[LoggedMember, ...] = ()


@dataclass(slots=True, kw_only=True)
class SnapshotEndKey:
    pass


@dataclass(slots=True, kw_only=True)
class SnapshotEnd:
    first_offset: int  # offset of the snapshot's first record; the log may start at it once this record is committed
    record_count: int
    written_at_ms: int


RecordKey = OffsetKey | GroupKey | SnapshotEndKey


def offset_commit(key: OffsetKey, value: CommittedOffset) -> LogRecord:
    metadata = value.metadata.encode()
    tags = []
    if value.topic_id != NO_TOPIC_ID:
        tags.append(tagged(_TOPIC_ID_TAG, value.topic_id))
    if value.expires_at_ms != -1:
        tags.append(tagged(_EXPIRY_TAG, INT64.pack(value.expires_at_ms)))
    parts = [
        INT16.pack(OFFSET_VALUE_VERSION),
        INT64.pack(value.offset),
        INT32.pack(value.leader_epoch),
        unsigned_varint(len(metadata) + 1),
        metadata,
        INT64.pack(value.committed_at_ms),
        unsigned_varint(len(tags)),
        *tags,
    ]
    return LogRecord(_offset_key(key), b"".join(parts))


def offset_tombstone(key: OffsetKey) -> LogRecord:
    return LogRecord(_offset_key(key), None)


def group_metadata(group_id: str, value: GroupMetadata) -> LogRecord:
    parts = [
        INT16.pack(GROUP_VALUE_VERSION),
        string(value.protocol_type),
        INT32.pack(value.generation),
        nullable_string(value.protocol_name),
        nullable_string(value.leader),
        INT64.pack(value.state_since_ms),
        INT32.pack(len(value.members)),
    ]
    for member in value.members:
        parts += (
            string(member.member_id),
            nullable_string(member.instance_id),
            string(member.client_id),
            string(member.client_host),
            INT32.pack(member.rebalance_timeout_ms),
            INT32.pack(member.session_timeout_ms),
            INT32.pack(len(member.subscription)),
            member.subscription,
            INT32.pack(len(member.assignment)),
            member.assignment,
        )
    return LogRecord(_group_key(group_id), b"".join(parts))


def group_tombstone(group_id: str) -> LogRecord:
    return LogRecord(_group_key(group_id), None)


def snapshot_end(value: SnapshotEnd) -> LogRecord:
    return LogRecord(
        INT16.pack(SNAPSHOT_END_KEY_VERSION),
        struct.pack(">hqiq", SNAPSHOT_END_VALUE_VERSION, value.first_offset, value.record_count, value.written_at_ms),
    )


def read_key(data: bytes) -> RecordKey | None:
    """Decode a key.  Return None for a type of record that Tidemill ignores."""
    reader = RecordReader(data)
    version = reader.int16()
    if version in OFFSET_KEY_VERSIONS:
        return OffsetKey(group_id=reader.string(), topic=reader.string(), partition=reader.int32())
    if version == GROUP_KEY_VERSION:
        return GroupKey(group_id=reader.string())
    if version == SNAPSHOT_END_KEY_VERSION:
        return SnapshotEndKey()
    return None


def read_offset(data: bytes) -> CommittedOffset:
    reader = RecordReader(data)
    version = reader.version(OFFSET_VALUE_VERSIONS)
    reader.flexible = version >= 4
    value = CommittedOffset(
        offset=reader.int64(),
        leader_epoch=reader.int32() if version >= 3 else -1,
        metadata=reader.string(),
        committed_at_ms=reader.int64(),
        expires_at_ms=reader.int64() if version == 1 else -1,
    )
    tags = reader.tags()
    expiry = tags.get(_EXPIRY_TAG)
    if expiry is not None:
        if len(expiry) != INT64.size:
            raise BadRecord(f"expiry of {len(expiry)} bytes; expected {INT64.size}")
        (value.expires_at_ms,) = INT64.unpack(expiry)
    topic_id = tags.get(_TOPIC_ID_TAG)
    if topic_id is not None:
        if len(topic_id) != 16:
            raise BadRecord(f"topic id of {len(topic_id)} bytes; expected 16")
        value.topic_id = TopicId(topic_id)
    return value


def read_group(data: bytes) -> GroupMetadata:
    reader = RecordReader(data)
    version = reader.version(GROUP_VALUE_VERSIONS)
    reader.flexible = version >= 4
    value = GroupMetadata(
        protocol_type=reader.string(),
        generation=reader.int32(),
        protocol_name=reader.nullable_string(),
        leader=reader.nullable_string(),
        state_since_ms=reader.int64() if version >= 2 else -1,
    )
    members = []
    for _ in range(reader.count()):
        member = LoggedMember(
            member_id=reader.string(),
            instance_id=reader.nullable_string() if version >= 3 else None,
            client_id=reader.string(),
            client_host=reader.string(),
            rebalance_timeout_ms=reader.int32() if version >= 1 else -1,
            session_timeout_ms=reader.int32(),
            subscription=reader.sized_bytes(),
            assignment=reader.sized_bytes(),
        )
        reader.tags()
        members.append(member)
    value.members = tuple(members)
    reader.tags()
    return value


def read_snapshot_end(data: bytes) -> SnapshotEnd:
    reader = RecordReader(data)
    reader.version(range(SNAPSHOT_END_VALUE_VERSION + 1))
    return SnapshotEnd(first_offset=reader.int64(), record_count=reader.int32(), written_at_ms=reader.int64())


def _offset_key(key: OffsetKey) -> bytes:
    return b"".join(
        (INT16.pack(OFFSET_KEY_VERSION), string(key.group_id), string(key.topic), INT32.pack(key.partition))
    )


def _group_key(group_id: str) -> bytes:
    return INT16.pack(GROUP_KEY_VERSION) + string(group_id)
