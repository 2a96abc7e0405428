"""Handles SyncGroup, Heartbeat and LeaveGroup, and removes members whose session or SyncGroup deadline has passed."""

from tidemill.coordinator.group import rebalance
from tidemill.coordinator.group.classic_group import ClassicGroup, GroupState, Signal
from tidemill.coordinator.group.decision_builder import DecisionBuilder
from tidemill.coordinator.group.log_records import group_metadata
from tidemill.coordinator.group.requests import Heartbeat, Leave, LeavingMember, Sync
from tidemill.coordinator.group.responses import HeartbeatTaken, Left, LeftMember, Synced
from tidemill.model import errors

S = GroupState


def sync(group: ClassicGroup, request: Sync, decision: DecisionBuilder) -> None:
    """Handle a SyncGroup: a member requests its assignment, and the leader sends the assignments of all members."""
    error_code = _sync_problem(group, request)
    if error_code != errors.NONE:
        decision.reply(request.waiter, Synced(error_code=error_code))
        return
    member = group.members[request.member_id]
    group.pending_syncs.pop(member.member_id, None)
    rebalance.cancel_sync_deadline_if_done(group, decision)
    if group.state is S.STABLE:
        decision.reply(request.waiter, _synced(group, member.assignment))
        return
    # Answer an earlier parked SyncGroup of the same member: its connection is most likely closed.
    rebalance.answer_sync(member, decision, Synced(error_code=errors.REBALANCE_IN_PROGRESS))
    member.sync_waiter = request.waiter
    if group.leader == member.member_id:
        _assign(group, request, decision)


def _sync_problem(group: ClassicGroup, request: Sync) -> int:
    error_code = group.member_problem(request.member_id, request.instance_id)
    if error_code != errors.NONE:
        return error_code
    if request.generation != group.generation:
        return errors.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type):
        return errors.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name is not None and group.protocol_name not in (None, request.protocol_name):
        return errors.INCONSISTENT_GROUP_PROTOCOL
    if group.state is S.PREPARING_REBALANCE:
        return errors.REBALANCE_IN_PROGRESS
    return errors.NONE


def _assign(group: ClassicGroup, request: Sync, decision: DecisionBuilder) -> None:
    """Complete the generation: log it, and answer all parked SyncGroups."""
    assignments = dict(request.assignments)
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    previous = group.state_since_ms
    group.state_since_ms = decision.timestamps.append_time
    record = group_metadata(group.group_id, group.logged())
    if len(record.value or b"") > decision.settings.group_metadata_bytes_max:
        # The record is too large for the log, so reject the assignment.  Kafka returns the same error, but only when it
        # appends the record.
        group.state_since_ms = previous
        rebalance.reject_syncs(group, decision, errors.UNKNOWN_SERVER_ERROR)
        rebalance.prepare(group, decision)
        return
    decision.records.append(record)
    group.transition(Signal.ASSIGNED, decision.timestamps.append_time)
    for member in group.members.values():
        if rebalance.answer_sync(member, decision, _synced(group, member.assignment)):
            rebalance.renew_session(group, member, decision)


def _synced(group: ClassicGroup, assignment: bytes) -> Synced:
    return Synced(protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment)


def heartbeat(group: ClassicGroup, request: Heartbeat, decision: DecisionBuilder) -> None:
    error_code = group.member_problem(request.member_id, request.instance_id)
    if error_code == errors.NONE and request.generation != group.generation:
        error_code = errors.ILLEGAL_GENERATION
    if error_code == errors.NONE:
        rebalance.renew_session(group, group.members[request.member_id], decision)
        if group.state is S.PREPARING_REBALANCE:
            error_code = errors.REBALANCE_IN_PROGRESS
    decision.reply(request.waiter, HeartbeatTaken(error_code=error_code))


def leave(group: ClassicGroup, request: Leave, decision: DecisionBuilder) -> None:
    left = tuple(
        LeftMember(
            member_id=leaving.member_id,
            instance_id=leaving.instance_id,
            error_code=_leave(group, leaving, decision),
        )
        for leaving in request.members
    )
    decision.reply(request.waiter, Left(members=left))
    if any(member.error_code == errors.NONE for member in left):
        if group.state in (S.STABLE, S.COMPLETING_REBALANCE):
            rebalance.prepare(group, decision)
        else:
            rebalance.complete_if_all_joined(group, decision)


def _leave(group: ClassicGroup, leaving: LeavingMember, decision: DecisionBuilder) -> int:
    member_id = leaving.member_id
    if not member_id:  # An administrator sends only the instance id.
        member_id = group.static_members.get(leaving.instance_id or "", "")
        if not member_id:
            return errors.UNKNOWN_MEMBER_ID
    elif member_id in group.pending_joins:
        group.remove(member_id)
        decision.deadlines.cancel(group.session_key(member_id))
        return errors.NONE
    error_code = group.member_problem(member_id, leaving.instance_id)
    if error_code == errors.NONE:
        rebalance.remove_member(group, group.members[member_id], decision)
    return error_code


def expire_session(group: ClassicGroup, member_id: str, decision: DecisionBuilder) -> None:
    """
    Handle the end of a session: a member did not send a heartbeat in time, or no client has used an assigned member id.
    """
    if member_id in group.pending_joins:
        group.remove(member_id)
        rebalance.complete_if_all_joined(group, decision)
        return
    member = group.members[member_id]
    if member.is_session_suspended:
        return  # The session is renewed when the member's parked request is answered.
    rebalance.remove_member(group, member, decision)
    if group.state in (S.STABLE, S.COMPLETING_REBALANCE):
        rebalance.prepare(group, decision)
    else:
        rebalance.complete_if_all_joined(group, decision)


def expire_sync(group: ClassicGroup, decision: DecisionBuilder) -> None:
    """Remove the members that did not send SyncGroup in time: they do not consume their assigned partitions."""
    for member_id in tuple(group.pending_syncs):
        rebalance.remove_member(group, group.members[member_id], decision)
    rebalance.prepare(group, decision)
