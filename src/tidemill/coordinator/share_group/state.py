"""The logged state of all share groups, which survives a change of leader and is changed only by `replay`.

A group exists from its first group record until the tombstone of that record.  Its topics have a record of their own,
which may outlive the group: while partitions hold state of a deleted group, the record lists their topics.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tidemill.coordinator.result import LogRecord
from tidemill.coordinator.share_group import log_records
from tidemill.coordinator.share_group.log_records import (
    AssignmentEpoch,
    CurrentAssignment,
    GroupTopics,
    Kind,
    MemberMetadata,
    RecordKey,
)
from tidemill.coordinator.share_group.simple_assignor import Assignment
from tidemill.model.topic import TopicId

NEVER_ASSIGNED = AssignmentEpoch(0)


@dataclass(slots=True)
class LoggedGroup:
    epoch: int = 0  # increases with each change to members, their subscriptions, or the topics
    assigned: AssignmentEpoch = NEVER_ASSIGNED  # lags behind `epoch` until a new target assignment is computed
    members: dict[str, MemberMetadata] = field(default_factory=dict)
    targets: dict[str, Assignment] = field(default_factory=dict)  # member id → its target assignment
    current: dict[str, CurrentAssignment] = field(default_factory=dict)  # member id → the assignment last sent to it
    subscribers: Counter[str] = field(default_factory=Counter)  # topic name → number of members that subscribe to it

    def put_member(self, member_id: str, metadata: MemberMetadata | None) -> None:
        before = self.members.pop(member_id, None)
        if before is not None:
            self.subscribers -= Counter(before.topics)
        if metadata is not None:
            self.members[member_id] = metadata
            self.subscribers.update(metadata.topics)


class LoggedShareGroups:
    __slots__ = ("groups", "last_incarnation", "topics")

    def __init__(self) -> None:
        self.groups: dict[str, LoggedGroup] = {}
        self.topics: dict[str, GroupTopics] = {}  # by group id; a group without topics is absent
        self.last_incarnation = 0  # the greatest incarnation that was replayed; a snapshot does not restore it

    def replay(self, key: RecordKey, value: bytes | None) -> None:
        """Apply one record.  Records must be replayed in log order.  Raises BadRecord for a malformed record."""
        if key.kind is Kind.TOPICS:
            self._replay_topics(key.group_id, value)
        elif value is not None:
            self._put(self.groups.setdefault(key.group_id, LoggedGroup()), key, value)
        elif key.kind is Kind.GROUP:
            self.groups.pop(key.group_id, None)
        elif key.group_id in self.groups:
            self._remove(self.groups[key.group_id], key)

    def topics_of(self, group_id: str) -> GroupTopics:
        """Return the topics of a group.  The caller must not change them."""
        return self.topics.get(group_id) or GroupTopics()

    def topic_ids(self) -> set[TopicId]:
        return {topic_id for topics in self.topics.values() for topic_id in (*topics.known, *topics.deleted)}

    # Methods for snapshots.

    def group_ids(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self.groups, *self.topics)))

    def keys_of(self, group_id: str) -> list[RecordKey]:
        """Return the keys of all records that a snapshot may contain for a group, in the order to write them."""
        members = self.groups[group_id].members if group_id in self.groups else {}
        of_members = [RecordKey(kind, group_id, member_id) for member_id in members for kind in log_records.OF_A_MEMBER]
        return [*(RecordKey(kind, group_id) for kind in (Kind.GROUP, Kind.TOPICS, Kind.ASSIGNMENT_EPOCH)), *of_members]

    def record_of(self, key: RecordKey) -> LogRecord | None:
        """Return the current record of a key; None if there is none."""
        kind, group_id, member_id = key
        topics, group = self.topics.get(group_id), self.groups.get(group_id)
        if kind is Kind.TOPICS:
            return None if topics is None else log_records.topics_record(group_id, topics)
        if group is None:
            return None
        match kind:
            case Kind.GROUP:
                return log_records.group_record(group_id, group.epoch)
            case Kind.ASSIGNMENT_EPOCH if group.assigned.epoch:
                return log_records.assignment_epoch_record(group_id, group.assigned)
            case Kind.MEMBER if member_id in group.members:
                return log_records.member_record(group_id, member_id, group.members[member_id])
            case Kind.TARGET if member_id in group.targets:
                return log_records.target_record(group_id, member_id, group.targets[member_id])
            case Kind.CURRENT if member_id in group.current:
                return log_records.current_record(group_id, member_id, group.current[member_id])
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoggedShareGroups) and self.groups == other.groups and self.topics == other.topics

    __hash__ = None  # type: ignore[assignment]

    def check_invariants(self) -> None:
        for group in self.groups.values():
            assert group.assigned.epoch <= group.epoch, "a target assignment is computed for the group's epoch"
            assert group.current.keys() <= group.members.keys()
            assert all(current.epoch <= group.assigned.epoch for current in group.current.values())
            names = Counter(name for member in group.members.values() for name in member.topics)
            assert names == group.subscribers
        assert all(topics.known or topics.deleted for topics in self.topics.values())

    def _replay_topics(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            self.topics.pop(group_id, None)
            return
        topics = self.topics[group_id] = log_records.read_topics(value)
        incarnations = [topic.incarnation for topic in topics.known.values()]
        incarnations += [share.incarnation for share in topics.deleted.values()]
        self.last_incarnation = max(self.last_incarnation, max(incarnations, default=0))

    @staticmethod
    def _put(group: LoggedGroup, key: RecordKey, value: bytes) -> None:
        match key.kind:
            case Kind.GROUP:
                group.epoch = log_records.read_group(value)
            case Kind.ASSIGNMENT_EPOCH:
                group.assigned = log_records.read_assignment_epoch(value)
            case Kind.MEMBER:
                group.put_member(key.member_id, log_records.read_member(value))
            case Kind.TARGET:
                group.targets[key.member_id] = log_records.read_target(value)
            case Kind.CURRENT:
                group.current[key.member_id] = log_records.read_current(value)

    @staticmethod
    def _remove(group: LoggedGroup, key: RecordKey) -> None:
        match key.kind:
            case Kind.ASSIGNMENT_EPOCH:
                group.assigned = NEVER_ASSIGNED
            case Kind.MEMBER:
                group.put_member(key.member_id, None)
            case Kind.TARGET:
                group.targets.pop(key.member_id, None)
            case Kind.CURRENT:
                group.current.pop(key.member_id, None)
