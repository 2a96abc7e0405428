"""Decides which topics a share group knows, and the incarnation of each.

The partitions' leaders keep the state of the group's records, as *shares*.  The incarnation makes a leader replace the
share of a deleted group: it is greater than every incarnation that this coordinator has given out before.  Deleting a
group therefore does not have to wait for leaders that cannot be reached.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from tidemill.coordinator.decision import Decision
from tidemill.coordinator.share_group.cluster_view import TopicView
from tidemill.coordinator.share_group.log_records import (
    DeletedShare,
    GroupTopics,
    KnownTopic,
    group_record,
    topics_record,
)
from tidemill.coordinator.share_group.state import LoggedShareGroups
from tidemill.model.topic import TopicId


class ShareToClose(NamedTuple):
    """The leaders of the topic's partitions must remove the group's share, up to the incarnation."""

    group_id: str
    topic_id: TopicId
    incarnation: int


def learned(
    logged: LoggedShareGroups, group_id: str, topics: Iterable[TopicView], append_time: int
) -> GroupTopics | None:
    """Return the group's topics after it has started to read `topics`; None if it knows all of their partitions."""
    before = logged.topics_of(group_id)
    incarnation = max(logged.last_incarnation + 1, append_time)
    changed: dict[TopicId, KnownTopic] = {}
    for topic in topics:
        known = before.known.get(topic.topic_id)
        if known is None:
            changed[topic.topic_id] = KnownTopic(
                name=topic.name,
                incarnation=incarnation,
                partition_count=topic.partition_count,
                first_partition_count=topic.partition_count,
            )
        elif known.partition_count < topic.partition_count:
            changed[topic.topic_id] = replace(known, partition_count=topic.partition_count)
    return replace(before, known={**before.known, **changed}) if changed else None


def delete_known(
    logged: LoggedShareGroups,
    group_id: str,
    decision: Decision,
    is_chosen: Callable[[TopicId], bool] = lambda topic_id: True,
) -> None:
    """Mark the shares of the chosen topics that the group knows as deleted: nothing continues them later."""
    topics = logged.topics_of(group_id)
    deleted = {
        topic_id: DeletedShare(name=topic.name, incarnation=topic.incarnation)
        for topic_id, topic in topics.known.items()
        if is_chosen(topic_id)
    }
    if deleted:
        known = {topic_id: topic for topic_id, topic in topics.known.items() if topic_id not in deleted}
        value = GroupTopics(known=known, deleted={**topics.deleted, **deleted})
        decision.records.append(topics_record(group_id, value))


def shares_to_close(logged: LoggedShareGroups) -> Iterator[ShareToClose]:
    for group_id, topics in logged.topics.items():
        for topic_id, share in topics.deleted.items():
            yield ShareToClose(group_id, topic_id, share.incarnation)


def closed(logged: LoggedShareGroups, share: ShareToClose, decision: Decision) -> None:
    """Forget a deleted share that no leader has any more."""
    topics = logged.topics_of(share.group_id)
    found = topics.deleted.get(share.topic_id)
    if found is not None and found.incarnation <= share.incarnation:
        left = {topic_id: it for topic_id, it in topics.deleted.items() if topic_id != share.topic_id}
        decision.records.append(topics_record(share.group_id, replace(topics, deleted=left)))


def forget(logged: LoggedShareGroups, topic_ids: frozenset[TopicId], decision: Decision) -> None:
    """Forget deleted topics.  The groups that have them assigned get a new epoch, and so a new assignment."""
    for group_id, topics in logged.topics.items():
        if topic_ids.isdisjoint((*topics.known, *topics.deleted)):
            continue
        group = logged.groups.get(group_id)
        if group is not None and any(not topic_ids.isdisjoint(target) for target in group.targets.values()):
            decision.records.append(group_record(group_id, group.epoch + 1))
        known = {topic_id: it for topic_id, it in topics.known.items() if topic_id not in topic_ids}
        deleted = {topic_id: it for topic_id, it in topics.deleted.items() if topic_id not in topic_ids}
        decision.records.append(topics_record(group_id, GroupTopics(known=known, deleted=deleted)))
