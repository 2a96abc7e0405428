"""The logged state of all groups, which survives a change of leader and is changed only by `replay`."""

from collections.abc import Callable

from tidemill.coordinator.group.committed_offsets import CommittedOffsets
from tidemill.coordinator.group.log_records import (
    GroupKey,
    GroupMetadata,
    OffsetKey,
    SnapshotEnd,
    read_group,
    read_key,
    read_offset,
    read_snapshot_end,
)
from tidemill.coordinator.share_group import log_records as share_log_records
from tidemill.coordinator.share_group.state import LoggedShareGroups
from tidemill.model.topic import NO_TOPIC_ID, TopicId

TopicIdOf = Callable[[str], TopicId | None]  # topic name → the topic's current id; None: no such topic


class LoggedState:
    __slots__ = ("_topic_id_of", "groups", "offsets", "share", "snapshot_end")

    def __init__(self, topic_id_of: TopicIdOf) -> None:
        self._topic_id_of = topic_id_of
        self.groups: dict[str, GroupMetadata] = {}
        self.offsets = CommittedOffsets()
        self.share = LoggedShareGroups()
        self.snapshot_end: SnapshotEnd | None = None  # the end record of the newest complete snapshot

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record.  Records must be replayed in log order.  Raises BadRecord for a malformed record."""
        named = read_key(key)
        if isinstance(named, OffsetKey):
            if value is None:
                self.offsets.remove(named)
                return
            committed = read_offset(value)
            if committed.topic_id == NO_TOPIC_ID:  # Kafka's offset values have no topic id before version 4
                committed.topic_id = self._topic_id_of(named.topic) or NO_TOPIC_ID
            self.offsets.put(named, committed)
        elif isinstance(named, GroupKey):
            if value is None:
                self.groups.pop(named.group_id, None)
            else:
                self.groups[named.group_id] = read_group(value)
        elif named is not None:
            if value is not None:
                self.snapshot_end = read_snapshot_end(value)
        elif (of_share_group := share_log_records.read_key(key)) is not None:
            self.share.replay(of_share_group, value)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LoggedState)
            and self.groups == other.groups
            and self.offsets == other.offsets
            and self.share == other.share
        )

    __hash__ = None  # type: ignore[assignment]
