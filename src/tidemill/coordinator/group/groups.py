"""All groups of one partition of `__consumer_offsets`: the entry point of the group coordinator.

The host calls `replay` for every record of the partition, then `loaded`, and from then on `decide` and `expire` for as
long as this broker leads the partition.  Before the next call, the host appends the records of each Result and replays
them.  It sends the replies once those records are committed.  When an append fails or leadership is lost, the host
calls `drain` and drops the coordinator.

The host passes the current time as a `Timestamps`.
"""

from collections.abc import Iterator

from tidemill.coordinator.deadlines import Deadlines
from tidemill.coordinator.group import administration, joining, membership, offsets, rebalance
from tidemill.coordinator.group.classic_group import ClassicGroup, GroupState, Signal
from tidemill.coordinator.group.committed_offsets import TopicPartitionKey
from tidemill.coordinator.group.decision_builder import DecisionBuilder
from tidemill.coordinator.group.group_settings import OFFSETS_PER_EXPIRY_STEP_MAX, GroupSettings
from tidemill.coordinator.group.log_records import (
    CommittedOffset,
    GroupMetadata,
    SnapshotEnd,
    group_metadata,
    group_tombstone,
    offset_tombstone,
)
from tidemill.coordinator.group.requests import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    FetchOffsets,
    ForgetTopics,
    GroupRequest,
    Heartbeat,
    Join,
    Leave,
    ListGroups,
    Sync,
)
from tidemill.coordinator.group.responses import (
    GroupsDeleted,
    GroupsDescribed,
    HeartbeatTaken,
    Joined,
    Left,
    LeftMember,
    OffsetsDeleted,
    OffsetsFetched,
    Synced,
)
from tidemill.coordinator.group.snapshot import CHUNK_RECORDS_MAX, SnapshotChunks
from tidemill.coordinator.group.state import LoggedState
from tidemill.coordinator.record_fields import name_fits
from tidemill.coordinator.result import Key, LogRecord, Result, Waiter
from tidemill.coordinator.share_group.cluster_view import ClusterView
from tidemill.coordinator.share_group.membership import SESSION as SHARE_SESSION
from tidemill.coordinator.share_group.requests import ShareGroupRequest
from tidemill.coordinator.share_group.share_groups import ShareGroups
from tidemill.coordinator.share_group.topic_incarnations import ShareToClose
from tidemill.coordinator.timestamps import Timestamps
from tidemill.model import errors
from tidemill.model.dead_letters import is_redrive
from tidemill.model.entropy import Entropy
from tidemill.model.topic import TopicId

OFFSETS_KEY: Key = ("offsets",)  # the deadline of the next expiry step


class Groups:
    __slots__ = ("_deadlines", "_entropy", "_expiry_queue", "_groups", "_is_loaded", "_settings", "_share", "_state")

    def __init__(self, settings: GroupSettings, entropy: Entropy, cluster: ClusterView) -> None:
        """Create a coordinator without state.

        For offset records without a topic id, which old versions of Kafka wrote, the id comes from `cluster`.
        """
        self._settings = settings
        self._entropy = entropy
        self._state = LoggedState(cluster.topic_id)  # only `replay` changes it
        self._groups: dict[str, ClassicGroup] = {}  # soft state; includes groups with offsets but no members
        self._share = ShareGroups(self._state.share, cluster, settings.share_size_max, self._groups)
        self._deadlines = Deadlines()
        self._is_loaded = False
        self._expiry_queue: list[str] = []  # groups not yet examined in this round of expiry

    # Methods that replay the log or take snapshots of the state.

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply a record of the partition.

        The host calls this for each record in log order while loading, and later for each record of a Result once its
        append is accepted.
        """
        self._state.replay(key, value)

    def loaded(self, timestamps: Timestamps) -> Result[LogRecord]:
        """
        Start once the entire partition has been replayed: restore the groups from the log and renew every session.
        """
        assert not self._is_loaded, "a coordinator is loaded once"
        self._is_loaded = True
        decision = self._decision(timestamps)
        for group_id, metadata in self._state.groups.items():
            group = self._groups[group_id] = ClassicGroup.from_log(group_id, metadata)
            for member in group.members.values():
                rebalance.renew_session(group, member, decision)
            if len(group.members) > self._settings.size_max:
                # The limit on the size of groups was lowered.  The members that join first stay in the group.
                rebalance.prepare(group, decision)
        for group_id in self._state.offsets.group_ids():
            if group_id not in self._groups:
                self._groups[group_id] = ClassicGroup(group_id, timestamps.append_time)
        self._share.loaded(decision)
        decision.wake_after(OFFSETS_KEY, self._settings.offsets_retention_check_interval_ms)
        return decision.result()

    def snapshot_chunks(self, records_max: int = CHUNK_RECORDS_MAX) -> SnapshotChunks:
        """Return an iterator over lists of records to append, each computed on demand.

        The host appends the iterator's `end_record` after the last list.
        """
        return SnapshotChunks(self._state, records_max)

    @property
    def snapshot_end(self) -> SnapshotEnd | None:
        """The end record of the newest complete snapshot: the log may start at the record's `first_offset`."""
        return self._state.snapshot_end

    def topic_ids(self) -> set[TopicId]:
        """Return the topic ids of all committed offsets, and of the topics that share groups read.

        After loading, the host sends ForgetTopics for the topics that no longer exist.
        """
        return self._state.offsets.topic_ids() | self._state.share.topic_ids()

    def shares_to_close(self) -> Iterator[ShareToClose]:
        """Yield the shares of deleted share groups that leaders of partitions may still have."""
        return self._share.shares_to_close()

    def counts(self) -> tuple[int, int]:
        """Return the number of groups and the number of their members."""
        share_groups, share_members = self._share.counts()
        members = sum(len(group.members) for group in self._groups.values())
        return len(self._groups) + share_groups, members + share_members

    def appends_nothing(self, request: ShareGroupRequest) -> bool:
        """Return whether a request about share groups can be served while the disk is full."""
        return self._share.appends_nothing(request)

    def committed_offsets(self) -> Iterator[tuple[str, dict[TopicPartitionKey, CommittedOffset]]]:
        """
        Yield each group that has committed offsets, together with its offsets.  The caller must not change the dict.
        """
        offsets = self._state.offsets
        return ((group_id, offsets.of_group(group_id)) for group_id in offsets.group_ids())

    # Methods that decide requests and deadlines.

    def decide(self, request: GroupRequest, timestamps: Timestamps) -> Result[LogRecord]:
        assert self._is_loaded
        decision = self._decision(timestamps)
        match request:
            case Heartbeat():
                self._heartbeat(request, decision)
            case CommitOffsets():
                self._commit(request, decision)
            case FetchOffsets() if request.group_id in self._share:
                decision.reply(request.waiter, OffsetsFetched(error_code=errors.GROUP_ID_NOT_FOUND))
            case FetchOffsets():
                offsets.fetch(self._state.offsets, request, decision)
            case Join():
                self._join(request, decision)
            case Sync():
                self._sync(request, decision)
            case Leave():
                self._leave(request, decision)
            case DeleteOffsets():
                self._delete_offsets(request, decision)
            case DescribeGroups():
                described = tuple(
                    administration.describe(name, self._groups.get(name), is_share=name in self._share)
                    for name in request.group_ids
                )
                decision.reply(request.waiter, GroupsDescribed(groups=described))
            case ListGroups():
                listed = administration.list_groups(self._groups.values(), self._share.states(), request)
                decision.reply(request.waiter, listed)
            case DeleteGroups():
                codes = tuple(self._delete(group_id, decision) for group_id in request.group_ids)
                decision.reply(request.waiter, GroupsDeleted(error_codes=codes))
            case ForgetTopics():
                decision.records += map(offset_tombstone, self._state.offsets.of_topics(request.topic_ids))
                self._share.forget_topics(request.topic_ids, decision)
            case _:
                self._share.decide(request, decision)
        return decision.result()

    def expire(self, key: Key, timestamps: Timestamps) -> Result[LogRecord]:
        """Handle a deadline that has been reached.  A deadline that was postponed or cancelled has no effect."""
        assert self._is_loaded
        decision = self._decision(timestamps)
        if self._deadlines.fired(key, timestamps.now_ms):
            if key == OFFSETS_KEY:
                self._delete_expired(decision)
            elif key[0] == SHARE_SESSION:
                self._share.expire(key, decision)
            else:
                group = self._groups[key[1]]
                match key[0]:
                    case "session":
                        membership.expire_session(group, key[2], decision)
                    case "join":
                        rebalance.expire_join(group, decision)
                    case "sync":
                        membership.expire_sync(group, decision)
        return decision.result()

    def drain(self, error_code: int) -> tuple[tuple[Waiter, object], ...]:
        """Return an error reply for every parked request; the host drops the coordinator afterwards."""
        replies: list[tuple[Waiter, object]] = []
        for group in self._groups.values():
            for member in group.members.values():
                waiter = group.take_join_waiter(member)
                if waiter is not None:
                    replies.append((waiter, Joined(error_code=error_code, member_id=member.member_id)))
                waiter, member.sync_waiter = member.sync_waiter, None
                if waiter is not None:
                    replies.append((waiter, Synced(error_code=error_code)))
        return tuple(replies)

    def check_invariants(self) -> None:
        """Check the invariants.  They hold only between decisions, when all decided records have been replayed."""
        self._deadlines.check_invariants()
        self._state.offsets.check_invariants()
        self._share.check_invariants(self._deadlines)
        for group_id, group in self._groups.items():
            assert group_id == group.group_id
            group.check_invariants()
            assert (group.join_key in self._deadlines) == (group.state is GroupState.PREPARING_REBALANCE)
            waits_for_sync = bool(group.pending_syncs) or group.state is GroupState.COMPLETING_REBALANCE
            assert group.sync_key not in self._deadlines or waits_for_sync
            assert not group.pending_syncs or group.sync_key in self._deadlines
            assert all(group.session_key(member_id) in self._deadlines for member_id in group.pending_joins)
            for member in group.members.values():
                assert member.is_session_suspended or group.session_key(member.member_id) in self._deadlines
            if group.state is GroupState.STABLE:
                self._check_matches_log(group, self._state.groups[group_id])
        for group_id in (*self._state.groups, *self._state.offsets.group_ids()):
            assert group_id in self._groups, "every group of the log is in memory"

    @staticmethod
    def _check_matches_log(group: ClassicGroup, logged: GroupMetadata) -> None:
        assert (group.generation, group.leader) == (logged.generation, logged.leader), "a stable generation is logged"
        assignments = {member.member_id: member.assignment for member in group.members.values()}
        assert assignments == {member.member_id: member.assignment for member in logged.members}

    def _decision(self, timestamps: Timestamps) -> DecisionBuilder:
        return DecisionBuilder(self._settings, self._entropy, self._deadlines, timestamps)

    def _join(self, request: Join, decision: DecisionBuilder) -> None:
        error_code = joining.problem(request, decision)
        group = self._groups.get(request.group_id)
        if error_code == errors.NONE and request.group_id in self._share:
            error_code = errors.INCONSISTENT_GROUP_PROTOCOL
        if error_code == errors.NONE and group is None and request.member_id:
            error_code = errors.UNKNOWN_MEMBER_ID
        if error_code != errors.NONE:
            decision.reply(request.waiter, Joined(error_code=error_code, member_id=request.member_id))
            return
        if group is not None:
            joining.join(group, request, decision)
            return
        group = ClassicGroup(request.group_id, decision.timestamps.append_time)
        if joining.join(group, request, decision):
            # Log a new group immediately: if this broker cannot write, the client gets an error without a long wait.
            self._groups[request.group_id] = group
            created = GroupMetadata(
                protocol_type="",
                generation=0,
                protocol_name=None,
                leader=None,
                state_since_ms=decision.timestamps.append_time,
            )
            decision.records.append(group_metadata(request.group_id, created))

    def _sync(self, request: Sync, decision: DecisionBuilder) -> None:
        group = self._groups.get(request.group_id)
        if not request.group_id:
            decision.reply(request.waiter, Synced(error_code=errors.INVALID_GROUP_ID))
        elif group is None:
            decision.reply(request.waiter, Synced(error_code=errors.UNKNOWN_MEMBER_ID))
        else:
            membership.sync(group, request, decision)

    def _heartbeat(self, request: Heartbeat, decision: DecisionBuilder) -> None:
        group = self._groups.get(request.group_id)
        if not request.group_id:
            decision.reply(request.waiter, HeartbeatTaken(error_code=errors.INVALID_GROUP_ID))
        elif group is None:
            decision.reply(request.waiter, HeartbeatTaken(error_code=errors.UNKNOWN_MEMBER_ID))
        else:
            membership.heartbeat(group, request, decision)

    def _leave(self, request: Leave, decision: DecisionBuilder) -> None:
        group = self._groups.get(request.group_id)
        if not request.group_id:
            decision.reply(request.waiter, Left(error_code=errors.INVALID_GROUP_ID))
        elif group is None:
            unknown = errors.UNKNOWN_MEMBER_ID
            decision.reply(
                request.waiter,
                Left(
                    members=tuple(
                        LeftMember(member_id=m.member_id, instance_id=m.instance_id, error_code=unknown)
                        for m in request.members
                    )
                ),
            )
        else:
            membership.leave(group, request, decision)

    def _commit(self, request: CommitOffsets, decision: DecisionBuilder) -> None:
        group = self._groups.get(request.group_id)
        if group is not None:
            offsets.commit(group, request, decision)
        elif request.group_id in self._share:
            offsets.reject_commit(request, errors.GROUP_ID_NOT_FOUND, decision)
        elif not name_fits(request.group_id) or is_redrive(request.group_id):
            offsets.reject_commit(request, errors.INVALID_GROUP_ID, decision)
        elif request.generation < 0:
            group = ClassicGroup(request.group_id, decision.timestamps.append_time)
            if offsets.commit(group, request, decision):
                self._groups[request.group_id] = group
        elif request.knows_group_id_not_found:
            offsets.reject_commit(request, errors.GROUP_ID_NOT_FOUND, decision)
        else:
            offsets.reject_commit(request, errors.ILLEGAL_GENERATION, decision)

    def _delete_offsets(self, request: DeleteOffsets, decision: DecisionBuilder) -> None:
        group = self._groups.get(request.group_id)
        if not request.group_id:
            decision.reply(request.waiter, OffsetsDeleted(error_code=errors.INVALID_GROUP_ID))
        elif group is None:
            decision.reply(request.waiter, OffsetsDeleted(error_code=errors.GROUP_ID_NOT_FOUND))
        else:
            offsets.delete(group, self._state.offsets, request, decision)

    def _delete(self, group_id: str, decision: DecisionBuilder) -> int:
        if group_id in self._share:
            return self._share.delete(group_id, decision)
        group = self._groups.get(group_id)
        if group is None:
            return errors.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return errors.NON_EMPTY_GROUP
        offsets.delete_all(group_id, self._state.offsets, decision)
        self._remove_group(group, decision)
        return errors.NONE

    def _delete_expired(self, decision: DecisionBuilder) -> None:
        """Run one step of an expiry round: examine a bounded number of offsets, and schedule the next step."""
        if not self._expiry_queue:
            self._expiry_queue = list(self._groups)
        examined = 0
        while self._expiry_queue and examined < OFFSETS_PER_EXPIRY_STEP_MAX:
            group = self._groups.get(self._expiry_queue.pop())
            if group is None:
                continue
            examined += 1 + len(self._state.offsets.of_group(group.group_id))
            nothing_left = offsets.delete_expired(group, self._state.offsets, decision)
            # Keep a group that has assigned member ids to clients, because these clients are about to join.  (Kafka
            # deletes the group.)
            if nothing_left and group.state is GroupState.EMPTY and not group.pending_joins:
                self._remove_group(group, decision)
        interval_ms = 1 if self._expiry_queue else self._settings.offsets_retention_check_interval_ms
        decision.wake_after(OFFSETS_KEY, interval_ms)

    def _remove_group(self, group: ClassicGroup, decision: DecisionBuilder) -> None:
        for member_id in group.pending_joins:
            decision.deadlines.cancel(group.session_key(member_id))
        group.transition(Signal.DELETED, decision.timestamps.append_time)
        del self._groups[group.group_id]
        if group.group_id in self._state.groups:
            decision.records.append(group_tombstone(group.group_id))
