"""Committed offsets of all groups in one partition of `__consumer_offsets`.

Each offset is stored under the same key as in the log (group, topic name, partition), so a newer record replaces an
older one, as in the log.  Each offset also belongs to a topic *id* and is returned only for that id: when a topic is
deleted and created again under the same name, the offsets of the old topic are not returned for the new one.
"""

from collections.abc import Iterator

from tidemill.coordinator.group.log_records import CommittedOffset, OffsetKey
from tidemill.model.topic import NO_TOPIC_ID, TopicId

TopicPartitionKey = tuple[str, int]


class CommittedOffsets:
    __slots__ = ("_by_group",)

    def __init__(self) -> None:
        self._by_group: dict[
            str, dict[TopicPartitionKey, CommittedOffset]
        ] = {}  # a group is present only while it has an offset

    def put(self, key: OffsetKey, value: CommittedOffset) -> None:
        self._by_group.setdefault(key.group_id, {})[key.topic, key.partition] = value

    def remove(self, key: OffsetKey) -> None:
        offsets = self._by_group.get(key.group_id)
        if offsets is not None:
            offsets.pop((key.topic, key.partition), None)
            if not offsets:
                del self._by_group[key.group_id]

    def get(self, group_id: str, topic: str, topic_id: TopicId, partition: int) -> CommittedOffset | None:
        """Return a committed offset; None if none is committed for this topic id.

        `NO_TOPIC_ID` selects by name alone: the caller passes it if no topic with that name exists, so the offset
        cannot be mistaken for a newer topic's offset.
        """
        committed = self._by_group.get(group_id, {}).get((topic, partition))
        if committed is None or topic_id not in (NO_TOPIC_ID, committed.topic_id):
            return None
        return committed

    def of_group(self, group_id: str) -> dict[TopicPartitionKey, CommittedOffset]:
        """Return the offsets of a group.  The caller must not change the dict."""
        return self._by_group.get(group_id, {})

    def group_ids(self) -> Iterator[str]:
        return iter(self._by_group)

    def topic_ids(self) -> set[TopicId]:
        return {committed.topic_id for offsets in self._by_group.values() for committed in offsets.values()}

    def of_topics(self, topic_ids: frozenset[TopicId]) -> Iterator[OffsetKey]:
        for group_id, offsets in self._by_group.items():
            for (topic, partition), committed in offsets.items():
                if committed.topic_id in topic_ids:
                    yield OffsetKey(group_id=group_id, topic=topic, partition=partition)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CommittedOffsets) and self._by_group == other._by_group

    __hash__ = None  # type: ignore[assignment]

    def check_invariants(self) -> None:
        assert all(self._by_group.values()), "every group has at least one offset"
