"""What the log says of groups: the one state that outlives a leader, changed by `replay` and by nothing else."""

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
from tidemill.model.topic import NO_TOPIC_ID, TopicId

TopicIdOf = Callable[[str], TopicId | None]  # the id that a topic's name has now; None: there is none


class LoggedState:
    __slots__ = ("_topic_id_of", "groups", "offsets", "snapshot_end")

    def __init__(self, topic_id_of: TopicIdOf) -> None:
        self._topic_id_of = topic_id_of
        self.groups: dict[str, GroupMetadata] = {}
        self.offsets = CommittedOffsets()
        self.snapshot_end: SnapshotEnd | None = None  # of the newest closed snapshot

    def replay(self, key: bytes, value: bytes | None) -> None:
        """One record, in the log's order.  Raises BadRecord when it is none."""
        named = read_key(key)
        if isinstance(named, OffsetKey):
            if value is None:
                self.offsets.remove(named)
                return
            committed = read_offset(value)
            if committed.topic_id == NO_TOPIC_ID:  # an older version, of Kafka's
                committed.topic_id = self._topic_id_of(named.topic) or NO_TOPIC_ID
            self.offsets.put(named, committed)
        elif isinstance(named, GroupKey):
            if value is None:
                self.groups.pop(named.group_id, None)
            else:
                self.groups[named.group_id] = read_group(value)
        elif named is not None and value is not None:
            self.snapshot_end = read_snapshot_end(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoggedState) and self.groups == other.groups and self.offsets == other.offsets

    __hash__ = None  # type: ignore[assignment]
