"""Handles OffsetCommit, OffsetFetch and OffsetDelete, and deletes expired offsets."""

from tidemill.coordinator.group import rebalance
from tidemill.coordinator.group.classic_group import ClassicGroup, GroupState
from tidemill.coordinator.group.committed_offsets import CommittedOffsets
from tidemill.coordinator.group.decision_builder import DecisionBuilder
from tidemill.coordinator.group.log_records import (
    CommittedOffset,
    OffsetKey,
    offset_commit,
    offset_tombstone,
)
from tidemill.coordinator.group.requests import CommitOffsets, DeleteOffsets, FetchOffsets, OffsetToCommit
from tidemill.coordinator.group.responses import FetchedOffset, OffsetsCommitted, OffsetsDeleted, OffsetsFetched
from tidemill.coordinator.record_fields import name_fits
from tidemill.model import errors

S = GroupState


def commit(group: ClassicGroup, request: CommitOffsets, decision: DecisionBuilder) -> bool:
    """
    Handle an OffsetCommit.  Return whether an offset is committed; if not, the caller drops the group if it is new.
    """
    error_code = _commit_problem(group, request)
    if error_code != errors.NONE:
        reject_commit(request, error_code, decision)
        return False
    if group.state in (S.STABLE, S.PREPARING_REBALANCE):
        rebalance.renew_session(group, group.members[request.member_id], decision)
    error_codes = tuple(_commit_one(request, offset, decision) for offset in request.offsets)
    decision.reply(request.waiter, OffsetsCommitted(error_codes=error_codes))
    return errors.NONE in error_codes


def reject_commit(request: CommitOffsets, error_code: int, decision: DecisionBuilder) -> None:
    decision.reply(request.waiter, OffsetsCommitted(error_codes=(error_code,) * len(request.offsets)))


def _commit_problem(group: ClassicGroup, request: CommitOffsets) -> int:
    if request.generation < 0 and group.state is S.EMPTY:
        return errors.NONE  # sent by an administrator, or by a simple consumer, which assigns its partitions itself
    if request.generation < 0 and not request.member_id and request.instance_id is None:
        return errors.UNKNOWN_MEMBER_ID
    error_code = group.member_problem(request.member_id, request.instance_id)
    if error_code != errors.NONE:
        return error_code
    if request.generation != group.generation:
        return errors.ILLEGAL_GENERATION
    if group.state is S.COMPLETING_REBALANCE:
        return errors.REBALANCE_IN_PROGRESS  # The leader may be assigning the partition to another member.
    return errors.NONE


def _commit_one(request: CommitOffsets, offset: OffsetToCommit, decision: DecisionBuilder) -> int:
    # As in Kafka, the limit applies to the number of characters, although the key's name says bytes.
    if len(offset.metadata) > decision.settings.offset_metadata_bytes_max or not name_fits(offset.metadata):
        return errors.OFFSET_METADATA_TOO_LARGE
    committed = CommittedOffset(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        committed_at_ms=decision.timestamps.append_time,
        expires_at_ms=-1 if request.retention_ms < 0 else decision.timestamps.append_time + request.retention_ms,
        topic_id=offset.topic_id,
    )
    key = OffsetKey(group_id=request.group_id, topic=offset.topic, partition=offset.partition)
    decision.records.append(offset_commit(key, committed))
    return errors.NONE


def fetch(offsets: CommittedOffsets, request: FetchOffsets, decision: DecisionBuilder) -> None:
    """Handle an OffsetFetch.  An unknown group is not an error: it has no committed offsets."""
    group_id = request.group_id
    if request.partitions is None:
        found = tuple(
            _fetched(topic, partition, committed)
            for (topic, partition), committed in offsets.of_group(group_id).items()
        )
    else:
        found = tuple(
            FetchedOffset(topic=asked.topic, topic_id=asked.topic_id, partition=asked.partition)
            if (committed := offsets.get(group_id, asked.topic, asked.topic_id, asked.partition)) is None
            else _fetched(asked.topic, asked.partition, committed)
            for asked in request.partitions
        )
    decision.reply(request.waiter, OffsetsFetched(offsets=found))


def _fetched(topic: str, partition: int, committed: CommittedOffset) -> FetchedOffset:
    return FetchedOffset(
        topic=topic,
        topic_id=committed.topic_id,
        partition=partition,
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def delete(group: ClassicGroup, offsets: CommittedOffsets, request: DeleteOffsets, decision: DecisionBuilder) -> None:
    """Handle an OffsetDelete.

    A consumer group with members keeps the offsets of the topics that it is subscribed to.  A group of another protocol
    type keeps all of its offsets while it has members, since its subscriptions are unknown.
    """
    if group.state is not S.EMPTY and not group.is_consumer:
        decision.reply(request.waiter, OffsetsDeleted(error_code=errors.NON_EMPTY_GROUP))
        return
    error_codes = []
    for asked in request.partitions:
        if group.is_subscribed(asked.topic):
            error_codes.append(errors.GROUP_SUBSCRIBED_TO_TOPIC)
            continue
        error_codes.append(errors.NONE)
        if offsets.get(group.group_id, asked.topic, asked.topic_id, asked.partition) is not None:
            key = OffsetKey(group_id=group.group_id, topic=asked.topic, partition=asked.partition)
            decision.records.append(offset_tombstone(key))
    decision.reply(request.waiter, OffsetsDeleted(error_codes=tuple(error_codes)))


def delete_all(group_id: str, offsets: CommittedOffsets, decision: DecisionBuilder) -> None:
    for topic, partition in offsets.of_group(group_id):
        decision.records.append(offset_tombstone(OffsetKey(group_id=group_id, topic=topic, partition=partition)))


def delete_expired(group: ClassicGroup, offsets: CommittedOffsets, decision: DecisionBuilder) -> bool:
    """Delete the group's expired offsets (KIP-211).  Return whether no offsets are left.

    The retention period of offsets starts when the group becomes empty or, for a simple consumer, at the commit.  A
    stable group loses only offsets of topics to which it no longer subscribes; their retention period starts at the
    commit.  A rebalancing group loses no offsets.
    """
    committed_offsets = offsets.of_group(group.group_id)
    if not committed_offsets:
        return True
    if group.protocol_type is None:
        since_ms = -1
    elif group.state is S.EMPTY:
        since_ms = group.state_since_ms
    elif group.is_consumer and group.subscribed_topics is not None and group.state is S.STABLE:
        since_ms = -1
    else:
        return False
    left = 0
    for (topic, partition), committed in committed_offsets.items():
        if committed.expires_at_ms != -1:
            expires_at_ms = committed.expires_at_ms
        else:
            idle_since_ms = committed.committed_at_ms if since_ms == -1 else since_ms
            expires_at_ms = idle_since_ms + decision.settings.offsets_retention_ms
        if decision.timestamps.past_ms >= expires_at_ms and not group.is_subscribed(topic):
            key = OffsetKey(group_id=group.group_id, topic=topic, partition=partition)
            decision.records.append(offset_tombstone(key))
        else:
            left += 1
    return not left
