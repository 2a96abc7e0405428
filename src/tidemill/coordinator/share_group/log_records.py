"""The encoding of a share group's records in `__consumer_offsets`: Kafka's key versions 10 to 15.

All values have version 0, which is flexible.  Kafka's tools read them; Tidemill's own tagged fields, which those tools
skip, hold the incarnation of a group's use of a topic and the topic's first partition count.  The metadata hash of a
group is always 0, because Tidemill compares the topics themselves.  The format is specified in
`docs/formats/consumer_offsets.md`.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from tidemill.coordinator.record_fields import (
    INT16,
    INT32,
    INT64,
    BadRecord,
    RecordReader,
    string,
    tagged,
    unsigned_varint,
)
from tidemill.coordinator.result import LogRecord
from tidemill.coordinator.share_group.simple_assignor import Assignment
from tidemill.model.topic import TopicId


class Kind(IntEnum):
    """The kinds of records, numbered by the version of their keys."""

    MEMBER = 10
    GROUP = 11
    ASSIGNMENT_EPOCH = 12
    TARGET = 13
    CURRENT = 14
    TOPICS = 15


OF_A_MEMBER = (Kind.MEMBER, Kind.TARGET, Kind.CURRENT)
STABLE = 0  # the only member state of share groups

_KINDS = range(min(Kind), max(Kind) + 1)
_VALUE_VERSIONS = range(1)
_VERSION = INT16.pack(0)
_NO_TAGS = b"\0"
_NO_HASH = INT64.pack(0)
_TIME_TAG = 0  # the tag of the time at which an assignment was computed (KIP-1263)
_INCARNATION_TAG = 10_001  # one of Tidemill's own tags, which docs/formats/numbers.md lists
_FIRST_COUNT_TAG = 10_002


class RecordKey(NamedTuple):
    kind: Kind
    group_id: str
    member_id: str = ""  # only in keys of the kinds `OF_A_MEMBER`


@dataclass(slots=True, kw_only=True)
class MemberMetadata:
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()  # the names of the subscribed topics, sorted


@dataclass(slots=True, kw_only=True)
class CurrentAssignment:
    """The assignment and epoch last sent to a member.  Its next heartbeat must carry this epoch or the previous one."""

    epoch: int
    previous_epoch: int
    assignment: Assignment


class AssignmentEpoch(NamedTuple):
    epoch: int  # the group epoch for which the target assignment was computed
    computed_at_ms: int = 0


@dataclass(slots=True, kw_only=True)
class KnownTopic:
    """A topic that the group reads, or has read: its partitions may hold state of the group."""

    name: str
    incarnation: int
    partition_count: int
    first_partition_count: int  # at the beginning of the incarnation; later partitions are read from their start


@dataclass(slots=True, kw_only=True)
class DeletedShare:
    """A topic whose partitions may still hold state of the group, up to an incarnation, that must be removed."""

    name: str
    incarnation: int


@dataclass(slots=True, kw_only=True)
class GroupTopics:
    known: dict[TopicId, KnownTopic] = field(default_factory=dict)
    deleted: dict[TopicId, DeletedShare] = field(default_factory=dict)


def tombstone(key: RecordKey) -> LogRecord:
    return LogRecord(_key(key), None)


def member_record(group_id: str, member_id: str, value: MemberMetadata) -> LogRecord:
    rack = b"\0" if value.rack is None else _compact(value.rack)
    topics = [_compact(name) for name in value.topics]
    fields = (rack, _compact(value.client_id), _compact(value.client_host), _array(topics))
    return _record(RecordKey(Kind.MEMBER, group_id, member_id), *fields)


def group_record(group_id: str, epoch: int) -> LogRecord:
    return _record(RecordKey(Kind.GROUP, group_id), INT32.pack(epoch), _NO_HASH)


def assignment_epoch_record(group_id: str, value: AssignmentEpoch) -> LogRecord:
    tags = [tagged(_TIME_TAG, INT64.pack(value.computed_at_ms))] if value.computed_at_ms else []
    return _record(RecordKey(Kind.ASSIGNMENT_EPOCH, group_id), INT32.pack(value.epoch), tags=tags)


def target_record(group_id: str, member_id: str, value: Assignment) -> LogRecord:
    return _record(RecordKey(Kind.TARGET, group_id, member_id), _assignment(value))


def current_record(group_id: str, member_id: str, value: CurrentAssignment) -> LogRecord:
    return _record(
        RecordKey(Kind.CURRENT, group_id, member_id),
        INT32.pack(value.epoch),
        INT32.pack(value.previous_epoch),
        bytes([STABLE]),
        _assignment(value.assignment),
    )


def topics_record(group_id: str, value: GroupTopics) -> LogRecord:
    """Return the record of the group's topics; a tombstone if there are none."""
    key = RecordKey(Kind.TOPICS, group_id)
    if not value.known and not value.deleted:
        return tombstone(key)
    known = []
    for topic_id, topic in value.known.items():
        partitions = [INT32.pack(number) for number in range(topic.partition_count)]
        tags = [
            _incarnation(topic.incarnation),
            tagged(_FIRST_COUNT_TAG, INT32.pack(topic.first_partition_count)),
        ]
        known.append(topic_id + _compact(topic.name) + _array(partitions) + _tags(tags))
    deleted = [
        topic_id + _compact(topic.name) + _tags([_incarnation(topic.incarnation)])
        for topic_id, topic in value.deleted.items()
    ]
    return _record(key, _array([]), _array(known), _array(deleted))


def read_key(data: bytes) -> RecordKey | None:
    """Decode a key; return None if it is not a key of a share group's record."""
    reader = RecordReader(data)
    version = reader.int16()
    if version not in _KINDS:
        return None
    kind = Kind(version)
    return RecordKey(kind, reader.string(), reader.string() if kind in OF_A_MEMBER else "")


def read_member(data: bytes) -> MemberMetadata:
    reader = _opened(data)
    value = MemberMetadata(rack=reader.nullable_string(), client_id=reader.string(), client_host=reader.string())
    value.topics = tuple(reader.string() for _ in range(reader.count()))
    reader.tags()
    return value


def read_group(data: bytes) -> int:
    """Return the group epoch."""
    reader = _opened(data)
    epoch = reader.int32()
    reader.int64()
    reader.tags()
    return epoch


def read_assignment_epoch(data: bytes) -> AssignmentEpoch:
    reader = _opened(data)
    epoch = reader.int32()
    return AssignmentEpoch(epoch, _number(reader.tags(), _TIME_TAG, INT64.size, 0))


def read_target(data: bytes) -> Assignment:
    reader = _opened(data)
    value = _read_assignment(reader)
    reader.tags()
    return value


def read_current(data: bytes) -> CurrentAssignment:
    reader = _opened(data)
    epoch, previous_epoch = reader.int32(), reader.int32()
    reader.take(1)  # the member's state, which is always stable
    value = CurrentAssignment(epoch=epoch, previous_epoch=previous_epoch, assignment=_read_assignment(reader))
    reader.tags()
    return value


def read_topics(data: bytes) -> GroupTopics:
    """Decode the group's topics.  A record of Kafka's has no incarnations, which counts as incarnation 0."""
    reader = _opened(data)
    value = GroupTopics()
    for _ in range(2):  # topics whose state is being initialized in Kafka, and topics whose state is initialized
        for _ in range(reader.count()):
            topic_id, name = TopicId(reader.take(16)), reader.string()
            partition_count = len([reader.int32() for _ in range(reader.count())])
            tags = reader.tags()
            value.known[topic_id] = KnownTopic(
                name=name,
                incarnation=_number(tags, _INCARNATION_TAG, INT64.size, 0),
                partition_count=partition_count,
                first_partition_count=_number(tags, _FIRST_COUNT_TAG, INT32.size, partition_count),
            )
    for _ in range(reader.count()):
        topic_id, name = TopicId(reader.take(16)), reader.string()
        incarnation = _number(reader.tags(), _INCARNATION_TAG, INT64.size, 0)
        value.deleted[topic_id] = DeletedShare(name=name, incarnation=incarnation)
    reader.tags()
    return value


def _key(key: RecordKey) -> bytes:
    member = string(key.member_id) if key.kind in OF_A_MEMBER else b""
    return INT16.pack(key.kind) + string(key.group_id) + member


def _record(key: RecordKey, *fields: bytes, tags: list[bytes] | None = None) -> LogRecord:
    return LogRecord(_key(key), b"".join((_VERSION, *fields, _tags(tags or []))))


def _compact(text: str) -> bytes:
    data = text.encode()
    return unsigned_varint(len(data) + 1) + data


def _array(elements: list[bytes]) -> bytes:
    return unsigned_varint(len(elements) + 1) + b"".join(elements)


def _tags(tags: list[bytes]) -> bytes:
    return unsigned_varint(len(tags)) + b"".join(tags)


def _incarnation(incarnation: int) -> bytes:
    return tagged(_INCARNATION_TAG, INT64.pack(incarnation))


def _assignment(value: Assignment) -> bytes:
    topics = [
        topic_id + _array([INT32.pack(number) for number in numbers]) + _NO_TAGS for topic_id, numbers in value.items()
    ]
    return _array(topics)


def _opened(data: bytes) -> RecordReader:
    reader = RecordReader(data)
    reader.version(_VALUE_VERSIONS)
    reader.flexible = True
    return reader


def _read_assignment(reader: RecordReader) -> Assignment:
    value: dict[TopicId, tuple[int, ...]] = {}
    for _ in range(reader.count()):
        topic_id = TopicId(reader.take(16))
        value[topic_id] = tuple(sorted(reader.int32() for _ in range(reader.count())))
        reader.tags()
    return value


def _number(tags: dict[int, bytes], tag: int, size: int, default: int) -> int:
    data = tags.get(tag)
    if data is None:
        return default
    if len(data) != size:
        raise BadRecord(f"tag {tag} has {len(data)} bytes; expected {size}")
    return int.from_bytes(data, "big", signed=True)
