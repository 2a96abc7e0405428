"""Handles ShareGroupHeartbeat: members join, stay, learn their assignment and leave (KIP-932).

    heartbeat ─▶ member changed? topics changed? ─▶ group epoch + 1 ─▶ interval passed? ─▶ target assignment
                                                                                              │
    reply ◀───────────── the member gets its part, and the target's epoch as its own ◀────────┘

A partition may have several members, so a member takes its new partitions at once: unlike in a consumer group, it does
not wait until others have given them up.  The target assignment is computed at most once per assignment interval; a
member that has to wait for it is asked to return when the interval has passed.

The order of the records makes each prefix of them valid: the group epoch comes first, and the assignment is computed
again as long as its epoch is smaller.
"""

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Final

from tidemill.coordinator.decision import Decision
from tidemill.coordinator.record_fields import name_fits
from tidemill.coordinator.result import Key
from tidemill.coordinator.share_group.cluster_view import ClusterView, TopicView
from tidemill.coordinator.share_group.log_records import (
    AssignmentEpoch,
    CurrentAssignment,
    GroupTopics,
    Kind,
    MemberMetadata,
    RecordKey,
    assignment_epoch_record,
    current_record,
    group_record,
    member_record,
    target_record,
    tombstone,
    topics_record,
)
from tidemill.coordinator.share_group.requests import JOIN_EPOCH, LEAVE_EPOCH, ShareHeartbeat
from tidemill.coordinator.share_group.responses import ShareHeartbeatTaken
from tidemill.coordinator.share_group.simple_assignor import Assignment, assign
from tidemill.coordinator.share_group.state import LoggedGroup, LoggedShareGroups
from tidemill.coordinator.share_group.topic_incarnations import learned
from tidemill.model import errors
from tidemill.model.dead_letters import check_has_consumers
from tidemill.model.errors import KafkaError

SESSION: Final = "share session"  # the first part of the key of a session's deadline
MEMBER_ID_LENGTH_MAX: Final = 36  # in characters: the text of a UUID, with hyphens
TOPICS_MAX: Final = 2_000  # subscribed by one member; keeps its records far below 1 MB
RETURN_MS_MIN: Final = 100  # the shortest heartbeat interval, so that a waiting member does not send a flood

_Problem = tuple[int, str]


class Membership:
    """The members of all share groups.  Logged state changes only by replay; the rest is soft state."""

    def __init__(
        self, logged: LoggedShareGroups, cluster: ClusterView, size_max: int, other_groups: Container[str]
    ) -> None:
        self._logged = logged
        self._cluster = cluster
        self._size_max = size_max
        self._other_groups = other_groups  # ids of the groups of other types
        self._assigned_at_ms: dict[str, int] = {}  # group id → when this leader computed its target assignment

    def renew_sessions(self, decision: Decision) -> None:
        """Restart every member's session timeout, because the members' last heartbeats reached an earlier leader."""
        for group_id, group in self._logged.groups.items():
            for member_id in group.members:
                self._renew_session(group_id, member_id, decision)

    def take(self, request: ShareHeartbeat, decision: Decision) -> None:
        problem = _malformed(request) or _without_consumers(request) or self._refused(request)
        if problem is not None:
            code, message = problem
            reply = ShareHeartbeatTaken(error_code=code, error_message=message)
        elif request.epoch == LEAVE_EPOCH:
            self._remove(request.group_id, request.member_id, decision)
            reply = ShareHeartbeatTaken(member_id=request.member_id, epoch=LEAVE_EPOCH)
        else:
            reply = self._update(request, decision)
            self._renew_session(request.group_id, request.member_id, decision)
        decision.reply(request.waiter, reply)

    def is_steady(self, request: ShareHeartbeat) -> bool:
        """Return whether the heartbeat changes nothing but the session: it appends no records."""
        group = self._logged.groups.get(request.group_id)
        if group is None or request.member_id not in group.current:
            return False
        member, current = group.members[request.member_id], group.current[request.member_id]
        return (
            request.epoch == current.epoch == group.assigned.epoch == group.epoch
            and _updated(member, request) == member
            and learned(self._logged, request.group_id, self._existing(group.subscribers).values(), 0) is None
        )

    def expire_session(self, group_id: str, member_id: str, decision: Decision) -> None:
        if self._is_member(group_id, member_id):
            self._remove(group_id, member_id, decision)

    def _refused(self, request: ShareHeartbeat) -> _Problem | None:
        group_id, member_id = request.group_id, request.member_id
        group = self._logged.groups.get(group_id)
        if group_id in self._other_groups:
            return errors.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group."
        if request.epoch == JOIN_EPOCH:
            if group is not None and len(group.members) >= self._size_max and member_id not in group.members:
                return (
                    errors.GROUP_MAX_SIZE_REACHED,
                    f"The share group has reached its maximum of {self._size_max} members (group.share.max.size).",
                )
            return None
        if group is None:
            return errors.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found."
        if member_id not in group.members:
            return errors.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
        # Accept the previous epoch as well: the response with the current epoch may have been lost.
        current = group.current.get(member_id)
        epochs = (0, 0) if current is None else (current.epoch, current.previous_epoch)
        if request.epoch != LEAVE_EPOCH and request.epoch not in epochs:
            return (
                errors.FENCED_MEMBER_EPOCH,
                f"The member sent epoch {request.epoch}, but the coordinator knows epoch {epochs[0]} and before it "
                f"{epochs[1]}. The member must abandon all its partitions and rejoin.",
            )
        return None

    def _update(self, request: ShareHeartbeat, decision: Decision) -> ShareHeartbeatTaken:
        """Update the member, and through it the group; return the reply."""
        group_id, member_id, now = request.group_id, request.member_id, decision.timestamps
        group = self._logged.groups.get(group_id) or LoggedGroup()
        before, current = group.members.get(member_id), group.current.get(member_id)
        member = _updated(before, request)
        has_new_topics = before is None or before.topics != member.topics
        existing = self._existing(_subscribers(group, before, member) if has_new_topics else group.subscribers)
        topics = learned(self._logged, group_id, existing.values(), now.append_time)
        epoch = group.epoch + (has_new_topics or topics is not None)
        _record_changes(group_id, group.epoch, epoch, topics, decision)
        if member != before:
            decision.records.append(member_record(group_id, member_id, member))

        wait_ms = self._assignment_wait_ms(group_id, now.now_ms) if epoch > group.assigned.epoch else 0
        assigned, target = group.assigned, group.targets.get(member_id, {})
        if epoch > group.assigned.epoch and not wait_ms:
            assigned = AssignmentEpoch(epoch, now.append_time)
            members = {**group.members, member_id: member}
            target = _assign(group_id, members, group.targets, existing, assigned, decision)[member_id]
            self._assigned_at_ms[group_id] = now.now_ms

        # Remove topics to which the member no longer subscribes now, even if the target assignment follows later.
        subscribed = {existing[name].topic_id for name in member.topics if name in existing}
        owned = {topic_id: partitions for topic_id, partitions in target.items() if topic_id in subscribed}
        told = _told(current, assigned.epoch, owned)
        if told != current:
            decision.records.append(current_record(group_id, member_id, told))
        is_sent = (
            current is None
            or request.topics is not None
            or request.epoch != current.epoch  # The member joins again, or a response was lost.
            or told.assignment != current.assignment
        )
        interval_ms = self._cluster.share_group_config(group_id).heartbeat_interval_ms
        return ShareHeartbeatTaken(
            member_id=member_id,
            epoch=told.epoch,
            heartbeat_interval_ms=min(interval_ms, max(wait_ms, RETURN_MS_MIN)) if wait_ms else interval_ms,
            assignment=told.assignment if is_sent else None,
        )

    def _assignment_wait_ms(self, group_id: str, now_ms: int) -> int:
        """Return the time until the next target assignment may be computed; 0 if it may be computed now.

        A new leader does not know when the last one was computed, and computes one when the first member asks.
        """
        assigned_at_ms = self._assigned_at_ms.get(group_id)
        if assigned_at_ms is None:
            return 0
        return max(0, assigned_at_ms + self._cluster.share_group_config(group_id).assignment_interval_ms - now_ms)

    def _remove(self, group_id: str, member_id: str, decision: Decision) -> None:
        """Remove a member.  Its partitions are assigned to the remaining members at one of their next heartbeats."""
        group = self._logged.groups[group_id]
        decision.deadlines.cancel(_session_key(group_id, member_id))
        decision.records.append(group_record(group_id, group.epoch + 1))
        for kind in (Kind.CURRENT, Kind.TARGET, Kind.MEMBER):
            decision.records.append(tombstone(RecordKey(kind, group_id, member_id)))
        if len(group.members) == 1:
            # The first member of an empty group does not have to wait for its assignment.
            self._assigned_at_ms.pop(group_id, None)

    def _renew_session(self, group_id: str, member_id: str, decision: Decision) -> None:
        timeout_ms = self._cluster.share_group_config(group_id).session_timeout_ms
        decision.wake_after(_session_key(group_id, member_id), timeout_ms)

    def _is_member(self, group_id: str, member_id: str) -> bool:
        group = self._logged.groups.get(group_id)
        return group is not None and member_id in group.members

    def _existing(self, names: Mapping[str, int]) -> dict[str, TopicView]:
        found = ((name, self._cluster.topic(name)) for name in names)
        return {name: topic for name, topic in found if topic is not None}


def session_keys(logged: LoggedShareGroups) -> set[Key]:
    return {_session_key(group_id, it) for group_id, group in logged.groups.items() for it in group.members}


def _session_key(group_id: str, member_id: str) -> Key:
    return (SESSION, group_id, member_id)


def _malformed(request: ShareHeartbeat) -> _Problem | None:
    problem = None
    if not request.member_id or len(request.member_id) > MEMBER_ID_LENGTH_MAX:
        problem = f"MemberId must have 1 to {MEMBER_ID_LENGTH_MAX} characters."
    elif not request.group_id or not name_fits(request.group_id):
        problem = "GroupId can't be empty, nor longer than 32767 bytes."
    elif request.rack == "":
        problem = "RackId can't be empty."
    elif request.epoch < LEAVE_EPOCH:
        problem = "MemberEpoch is invalid."
    elif request.epoch == JOIN_EPOCH and not request.topics:
        problem = "SubscribedTopicNames must be set in first request."
    elif request.topics is not None and len(request.topics) > TOPICS_MAX:
        problem = f"A member subscribes to at most {TOPICS_MAX} topics."
    return None if problem is None else (errors.INVALID_REQUEST, problem)


def _without_consumers(request: ShareHeartbeat) -> _Problem | None:
    try:
        check_has_consumers(request.group_id)
    except KafkaError as refused:
        return refused.error_code, str(refused.message)
    return None


def _updated(member: MemberMetadata | None, request: ShareHeartbeat) -> MemberMetadata:
    before = member or MemberMetadata()
    return MemberMetadata(
        rack=before.rack if request.rack is None else request.rack,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=before.topics if request.topics is None else tuple(sorted(set(request.topics))),
    )


def _subscribers(group: LoggedGroup, before: MemberMetadata | None, member: MemberMetadata) -> Counter[str]:
    others = group.subscribers if before is None else group.subscribers - Counter(before.topics)
    return others + Counter(member.topics)


def _record_changes(group_id: str, before: int, epoch: int, topics: GroupTopics | None, decision: Decision) -> None:
    # The epoch comes first: if only the topics were logged, no later heartbeat would notice the change.
    if epoch != before:
        decision.records.append(group_record(group_id, epoch))
    if topics is not None:
        decision.records.append(topics_record(group_id, topics))


def _assign(
    group_id: str,
    members: Mapping[str, MemberMetadata],
    targets: Mapping[str, Assignment],
    existing: Mapping[str, TopicView],
    assigned: AssignmentEpoch,
    decision: Decision,
) -> dict[str, Assignment]:
    """Compute the target assignment of all members, and log what has changed."""
    subscriptions = {
        member_id: frozenset(existing[name].topic_id for name in member.topics if name in existing)
        for member_id, member in members.items()
    }
    partition_counts = {topic.topic_id: topic.partition_count for topic in existing.values()}
    target = assign(subscriptions, partition_counts, targets)
    for member_id, assignment in target.items():
        if assignment != targets.get(member_id):
            decision.records.append(target_record(group_id, member_id, assignment))
    decision.records.append(assignment_epoch_record(group_id, assigned))
    return target


def _told(current: CurrentAssignment | None, epoch: int, owned: Assignment) -> CurrentAssignment:
    if current is not None and current.epoch == epoch:
        return replace(current, assignment=owned)
    return CurrentAssignment(epoch=epoch, previous_epoch=0 if current is None else current.epoch, assignment=owned)
