"""All share groups of one partition of `__consumer_offsets`: the entry point for `coordinator.group.groups`.

Groups of all types have one id space and one log; `Groups` replays and snapshots them together and passes the requests
about share groups to this class.  A share group has no committed offsets: what its members have done with the records
of a partition is in the log of that partition's shard (`tidemill.share`).  This coordinator knows the members, their
assignments, and the incarnation of each topic that the group reads.
"""

from collections.abc import Container, Iterator
from typing import Final

from tidemill.coordinator.deadlines import Deadlines
from tidemill.coordinator.decision import Decision
from tidemill.coordinator.record_fields import name_fits
from tidemill.coordinator.result import Key
from tidemill.coordinator.share_group import offsets, topic_incarnations
from tidemill.coordinator.share_group.cluster_view import ClusterView
from tidemill.coordinator.share_group.log_records import (
    Kind,
    RecordKey,
    group_record,
    tombstone,
    topics_record,
)
from tidemill.coordinator.share_group.membership import SESSION, Membership, session_keys
from tidemill.coordinator.share_group.requests import (
    AlterShareOffsets,
    DeleteShareOffsets,
    DescribeShareGroups,
    ReadShareTopics,
    ShareGroupRequest,
    ShareHeartbeat,
    ShareOpen,
    SharesClosed,
)
from tidemill.coordinator.share_group.responses import (
    DescribedShareGroup,
    DescribedShareMember,
    DescribedTopic,
    ShareGroupsDescribed,
    ShareOffsetsAltered,
    ShareOffsetsDeleted,
    ShareOpened,
    ShareTopicsRead,
)
from tidemill.coordinator.share_group.simple_assignor import ASSIGNOR_NAME, Assignment
from tidemill.coordinator.share_group.state import LoggedGroup, LoggedShareGroups
from tidemill.coordinator.share_group.topic_incarnations import ShareToClose
from tidemill.model import errors
from tidemill.model.offset_reset import EARLIEST
from tidemill.model.topic import TopicId

PROTOCOL_TYPE: Final = "share"
GROUP_TYPE: Final = "Share"


class ShareGroups:
    def __init__(
        self, logged: LoggedShareGroups, cluster: ClusterView, size_max: int, other_groups: Container[str]
    ) -> None:
        """Create the coordinator of the share groups in `logged`, which the caller replays."""
        self._logged = logged
        self._cluster = cluster
        self._other_groups = other_groups
        self._membership = Membership(logged, cluster, size_max, other_groups)

    def loaded(self, decision: Decision) -> None:
        self._membership.renew_sessions(decision)

    def decide(self, request: ShareGroupRequest, decision: Decision) -> None:
        match request:
            case ShareHeartbeat():
                self._membership.take(request, decision)
            case DescribeShareGroups():
                groups = tuple(self._described(group_id) for group_id in request.group_ids)
                decision.reply(request.waiter, ShareGroupsDescribed(groups=groups))
            case ShareOpen():
                decision.reply(request.waiter, self._open(request, decision))
            case ReadShareTopics():
                decision.reply(request.waiter, self._topics(request.group_id))
            case AlterShareOffsets():
                decision.reply(request.waiter, self._alter_offsets(request, decision))
            case DeleteShareOffsets():
                decision.reply(request.waiter, self._delete_offsets(request, decision))
            case SharesClosed():
                share = ShareToClose(request.group_id, request.topic_id, request.incarnation)
                topic_incarnations.closed(self._logged, share, decision)

    def expire(self, key: Key, decision: Decision) -> None:
        """Handle a deadline whose key begins with `SESSION`."""
        assert key[0] == SESSION
        self._membership.expire_session(key[1], key[2], decision)

    def delete(self, group_id: str, decision: Decision) -> int:
        """Delete a group without members; return the error code.

        The group is gone at once.  The leaders of its partitions remove their shares later (`shares_to_close`).
        """
        group = self._logged.groups[group_id]
        if group.members:
            return errors.NON_EMPTY_GROUP
        topic_incarnations.delete_known(self._logged, group_id, decision)
        decision.records.append(tombstone(RecordKey(Kind.ASSIGNMENT_EPOCH, group_id)))
        decision.records.append(tombstone(RecordKey(Kind.GROUP, group_id)))
        return errors.NONE

    def forget_topics(self, topic_ids: frozenset[TopicId], decision: Decision) -> None:
        topic_incarnations.forget(self._logged, topic_ids, decision)

    # Queries, which do not change anything.

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._logged.groups

    def states(self) -> Iterator[tuple[str, str]]:
        """Yield the id and the state of each group."""
        return ((group_id, _state(group)) for group_id, group in self._logged.groups.items())

    def counts(self) -> tuple[int, int]:
        """Return the number of groups and the number of their members."""
        groups = self._logged.groups.values()
        return len(groups), sum(len(group.members) for group in groups)

    def appends_nothing(self, request: ShareGroupRequest) -> bool:
        """Return whether the request can be served while the disk is full."""
        match request:
            case ShareHeartbeat():
                return self._membership.is_steady(request)
            case ShareOpen():
                return request.topic_id in self._logged.topics_of(request.group_id).known
            case DescribeShareGroups() | ReadShareTopics() | SharesClosed():
                return True  # SharesClosed appends a record, which makes the state smaller.
            case AlterShareOffsets() | DeleteShareOffsets():
                return False

    def shares_to_close(self) -> Iterator[ShareToClose]:
        """Yield the deleted shares that partitions' leaders may still have; the host answers with `SharesClosed`."""
        return topic_incarnations.shares_to_close(self._logged)

    def check_invariants(self, deadlines: Deadlines) -> None:
        """Check the invariants.  They hold only between decisions, when all decided records have been replayed."""
        self._logged.check_invariants()
        for group_id in self._logged.groups:
            assert group_id not in self._other_groups, "a group id has one type"
        for key in session_keys(self._logged):
            assert key in deadlines, "every member has a session"

    def _open(self, request: ShareOpen, decision: Decision) -> ShareOpened:
        """Return the incarnation and the start of a group's share of a partition."""
        group_id, topic_id = request.group_id, request.topic_id
        if group_id in self._other_groups or not (group_id in self or request.may_create):
            return ShareOpened(error_code=errors.GROUP_ID_NOT_FOUND)
        if not group_id or not name_fits(group_id):
            return ShareOpened(error_code=errors.INVALID_GROUP_ID)
        known = self._logged.topics_of(group_id).known.get(topic_id)
        if known is None:
            topic = self._cluster.topic_by_id(topic_id)
            if topic is None:
                return ShareOpened(error_code=errors.UNKNOWN_TOPIC_ID)
            topics = topic_incarnations.learned(self._logged, group_id, [topic], decision.timestamps.append_time)
            # Raise the group epoch: members that subscribe to the topic get its partitions at their next heartbeat.
            group = self._logged.groups.get(group_id) or LoggedGroup()
            decision.records.append(group_record(group_id, group.epoch + 1))
            assert topics is not None, "the group does not know the topic yet"
            decision.records.append(topics_record(group_id, topics))
            known = topics.known[topic_id]
        is_added = request.partition >= known.first_partition_count
        start = EARLIEST if is_added else self._cluster.share_group_config(group_id).offset_reset
        return ShareOpened(incarnation=known.incarnation, start=start)

    def _topics(self, group_id: str) -> ShareTopicsRead:
        if group_id not in self:
            return ShareTopicsRead(error_code=errors.GROUP_ID_NOT_FOUND, error_message=self._missing(group_id))
        known = self._logged.topics_of(group_id).known
        return ShareTopicsRead(incarnations={topic_id: topic.incarnation for topic_id, topic in known.items()})

    def _alter_offsets(self, request: AlterShareOffsets, decision: Decision) -> ShareOffsetsAltered:
        group_id = request.group_id
        if not group_id or not name_fits(group_id):
            message = "GroupId can't be empty, nor longer than 32767 bytes."
            return ShareOffsetsAltered(error_code=errors.INVALID_GROUP_ID, error_message=message)
        if group_id in self._other_groups:
            message = self._missing(group_id)
            return ShareOffsetsAltered(error_code=errors.GROUP_ID_NOT_FOUND, error_message=message)
        return offsets.alter(self._logged, self._cluster, request, decision)

    def _delete_offsets(self, request: DeleteShareOffsets, decision: Decision) -> ShareOffsetsDeleted:
        group_id = request.group_id
        if group_id not in self:
            code = errors.GROUP_ID_NOT_FOUND if group_id else errors.INVALID_GROUP_ID
            return ShareOffsetsDeleted(error_code=code, error_message=self._missing(group_id))
        return offsets.delete(self._logged, self._cluster, request, decision)

    def _missing(self, group_id: str) -> str:
        is_other = group_id in self._other_groups
        return f"Group {group_id} is not a share group." if is_other else f"Group {group_id} not found."

    def _described(self, group_id: str) -> DescribedShareGroup:
        group = self._logged.groups.get(group_id)
        if group is None:
            return DescribedShareGroup(
                group_id=group_id,
                error_code=errors.GROUP_ID_NOT_FOUND,
                error_message=self._missing(group_id),
            )
        return DescribedShareGroup(
            group_id=group_id,
            state=_state(group),
            epoch=group.epoch,
            assignment_epoch=group.assigned.epoch,
            assignor=ASSIGNOR_NAME,
            members=tuple(self._described_member(group, member_id) for member_id in group.members),
        )

    def _described_member(self, group: LoggedGroup, member_id: str) -> DescribedShareMember:
        member, current = group.members[member_id], group.current.get(member_id)
        return DescribedShareMember(
            member_id=member_id,
            rack=member.rack,
            epoch=0 if current is None else current.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=member.topics,
            assignment=() if current is None else tuple(self._named(current.assignment)),
        )

    def _named(self, assignment: Assignment) -> Iterator[DescribedTopic]:
        """Yield the assigned topics with their names; topics that have been deleted are left out."""
        for topic_id, partitions in assignment.items():
            topic = self._cluster.topic_by_id(topic_id)
            if topic is not None:
                yield DescribedTopic(topic_id, topic.name, partitions)


def _state(group: LoggedGroup) -> str:
    return "Stable" if group.members else "Empty"
