"""Committed offsets of all groups of one partition of `__consumer_offsets`.

They are kept under the log's own key (group, topic name, partition): what the log overwrites is overwritten here too.
But each belongs to a topic *id*, and is given only to who asks for that id: a topic that was deleted and made again
under the same name does not see the commits of the one before.
"""

from collections.abc import Iterator

from tidemill.coordinator.group.log_records import CommittedOffset, OffsetKey
from tidemill.model.topic import NO_TOPIC_ID, TopicId

TopicPartitionKey = tuple[str, int]


class CommittedOffsets:
    __slots__ = ("_by_group",)

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartitionKey, CommittedOffset]] = {}  # no group without an offset

    def put(self, key: OffsetKey, value: CommittedOffset) -> None:
        self._by_group.setdefault(key.group_id, {})[key.topic, key.partition] = value

    def remove(self, key: OffsetKey) -> None:
        offsets = self._by_group.get(key.group_id)
        if offsets is not None:
            offsets.pop((key.topic, key.partition), None)
            if not offsets:
                del self._by_group[key.group_id]

    def get(self, group_id: str, topic: str, topic_id: TopicId, partition: int) -> CommittedOffset | None:
        """`NO_TOPIC_ID` asks by name alone: there is no such topic now, so nothing can be mistaken for it."""
        committed = self._by_group.get(group_id, {}).get((topic, partition))
        if committed is None or topic_id not in (NO_TOPIC_ID, committed.topic_id):
            return None
        return committed

    def of_group(self, group_id: str) -> dict[TopicPartitionKey, CommittedOffset]:
        """Not to be changed by the caller."""
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
        assert all(self._by_group.values()), "a group without offsets is not kept"
