"""Handles the administration of a share group's offsets: AlterShareGroupOffsets and DeleteShareGroupOffsets (KIP-932).

The offsets themselves are in the shares, on the leaders of the partitions.  This coordinator checks that the group has
no members, and says which incarnation of a topic the leaders may change.
"""

from tidemill.coordinator.decision import Decision
from tidemill.coordinator.share_group import topic_incarnations
from tidemill.coordinator.share_group.cluster_view import ClusterView
from tidemill.coordinator.share_group.log_records import group_record, topics_record
from tidemill.coordinator.share_group.requests import AlterShareOffsets, DeleteShareOffsets
from tidemill.coordinator.share_group.responses import (
    AlteredTopic,
    DeletedTopic,
    ShareOffsetsAltered,
    ShareOffsetsDeleted,
)
from tidemill.coordinator.share_group.state import LoggedShareGroups
from tidemill.model import errors
from tidemill.model.topic import NO_TOPIC_ID

_Problem = tuple[int, str]


def alter(
    logged: LoggedShareGroups, cluster: ClusterView, request: AlterShareOffsets, decision: Decision
) -> ShareOffsetsAltered:
    """Create the group if it is missing and a topic exists, and let it know the topics.

    The caller has checked the group's id and type.
    """
    group_id = request.group_id
    problem = _in_use(logged, group_id)
    if problem is not None:
        code, message = problem
        return ShareOffsetsAltered(error_code=code, error_message=message)
    named = [cluster.topic(name) for name in request.topics]
    existing = [topic for topic in named if topic is not None]
    if existing and group_id not in logged.groups:
        decision.records.append(group_record(group_id, 1))
    learned = topic_incarnations.learned(logged, group_id, existing, decision.timestamps.append_time)
    if learned is not None:
        decision.records.append(topics_record(group_id, learned))
    known = (learned or logged.topics_of(group_id)).known
    return ShareOffsetsAltered(
        topics=tuple(
            None
            if topic is None
            else AlteredTopic(topic.topic_id, topic.partition_count, known[topic.topic_id].incarnation)
            for topic in named
        )
    )


def delete(
    logged: LoggedShareGroups, cluster: ClusterView, request: DeleteShareOffsets, decision: Decision
) -> ShareOffsetsDeleted:
    """Mark the group's shares of the topics as deleted.  The caller has checked that this is a share group.

    The leaders remove them later (`shares_to_close`).  A member that subscribes to such a topic again begins a greater
    incarnation.
    """
    group_id = request.group_id
    problem = _in_use(logged, group_id)
    if problem is not None:
        code, message = problem
        return ShareOffsetsDeleted(error_code=code, error_message=message)
    topics = logged.topics_of(group_id)
    deleted = []
    for name in request.topics:
        topic = cluster.topic(name)
        if topic is None:
            deleted.append(DeletedTopic(NO_TOPIC_ID, errors.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name}."))
        elif topic.topic_id in topics.known or topic.topic_id in topics.deleted:
            deleted.append(DeletedTopic(topic.topic_id))
        else:
            message = f"Group {group_id} has no offsets of topic {name}."
            deleted.append(DeletedTopic(topic.topic_id, errors.UNKNOWN_TOPIC_OR_PARTITION, message))
    chosen = {it.topic_id for it in deleted if not it.error_code}
    topic_incarnations.delete_known(logged, group_id, decision, lambda topic_id: topic_id in chosen)
    return ShareOffsetsDeleted(topics=tuple(deleted))


def _in_use(logged: LoggedShareGroups, group_id: str) -> _Problem | None:
    group = logged.groups.get(group_id)
    if group is None or not group.members:
        return None
    return errors.NON_EMPTY_GROUP, f"The group is not empty: {group_id} has {len(group.members)} active members."
