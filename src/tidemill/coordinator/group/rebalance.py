"""Runs a rebalance: prepares it, waits until the members have joined, and starts a generation.

The first rebalance of an empty group is delayed by group.initial.rebalance.delay.ms, and delayed again if a new member
joins during the delay, so that clients that start together need only one assignment.  Every later rebalance waits until
all members have joined again, but no longer than the longest rebalance timeout among them.  Dynamic members that have
not joined by that deadline are removed; static members stay until their session ends (KIP-345).
"""

from tidemill.coordinator.group.classic_group import ClassicGroup, GroupState, Member, Signal
from tidemill.coordinator.group.decision_builder import DecisionBuilder
from tidemill.coordinator.group.log_records import group_metadata
from tidemill.coordinator.group.responses import Joined, Synced
from tidemill.model import errors

S = GroupState


def prepare(group: ClassicGroup, decision: DecisionBuilder) -> None:
    """Start a rebalance: every member has to join again."""
    if group.state is S.COMPLETING_REBALANCE:
        reject_syncs(group, decision, errors.REBALANCE_IN_PROGRESS)
    group.pending_syncs.clear()
    decision.deadlines.cancel(group.sync_key)
    if group.state is S.EMPTY:
        delay_ms = decision.settings.initial_rebalance_delay_ms
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        group.joined_since_delay = False
        group.transition(Signal.REBALANCE, decision.timestamps.append_time)
        decision.wake_after(group.join_key, delay_ms)
        return
    group.transition(Signal.REBALANCE, decision.timestamps.append_time)
    if group.all_joined:
        complete_join(group, decision)
    else:
        decision.wake_after(group.join_key, group.rebalance_timeout_ms)


def prepare_or_complete(group: ClassicGroup, decision: DecisionBuilder) -> None:
    """Handle a new or changed member: start a rebalance, or continue the one that is being prepared."""
    if group.state is S.PREPARING_REBALANCE:
        complete_if_all_joined(group, decision)
    else:
        prepare(group, decision)


def complete_if_all_joined(group: ClassicGroup, decision: DecisionBuilder) -> None:
    """Complete the joining phase if all members have joined.

    The initial delay of an empty group always runs to its end, because other clients may be starting.
    """
    if group.state is S.PREPARING_REBALANCE and group.previous_state is not S.EMPTY and group.all_joined:
        complete_join(group, decision)


def expire_join(group: ClassicGroup, decision: DecisionBuilder) -> None:
    """Handle the join deadline: extend the initial delay, or continue with the members that have joined."""
    if group.initial_delay_ms and group.joined_since_delay and group.initial_remaining_ms:
        group.joined_since_delay = False
        delay_ms = min(decision.settings.initial_rebalance_delay_ms, group.initial_remaining_ms)
        group.initial_remaining_ms = max(group.initial_remaining_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay_ms
        decision.wake_after(group.join_key, delay_ms)
    else:
        complete_join(group, decision)


def complete_join(group: ClassicGroup, decision: DecisionBuilder) -> None:
    decision.deadlines.cancel(group.join_key)
    group.initial_delay_ms = group.initial_remaining_ms = 0
    absent = [m.member_id for m in group.members.values() if m.join_waiter is None and m.instance_id is None]
    for member_id in absent:
        group.remove(member_id)
        decision.deadlines.cancel(group.session_key(member_id))
    if group.members and not _leader_has_joined(group):
        # Only static members remain, and none of them have joined: wait until they join or their sessions end.
        decision.wake_after(group.join_key, group.rebalance_timeout_ms)
        return
    group.begin_generation(decision.timestamps.append_time)
    if not group.members:
        decision.records.append(group_metadata(group.group_id, group.logged()))
        return
    for member in group.members.values():
        answer_join(
            group,
            member,
            decision,
            Joined(
                member_id=member.member_id,
                generation=group.generation,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                leader=group.leader or "",
                members=group.joined_members() if member.member_id == group.leader else (),
            ),
        )
        renew_session(group, member, decision)
        member.is_new = False
        group.pending_syncs[member.member_id] = None
    decision.wake_after(group.sync_key, group.rebalance_timeout_ms)


def cancel_sync_deadline_if_done(group: ClassicGroup, decision: DecisionBuilder) -> None:
    """Cancel the sync deadline when no SyncGroup is outstanding."""
    if not group.pending_syncs:
        decision.deadlines.cancel(group.sync_key)


def reject_syncs(group: ClassicGroup, decision: DecisionBuilder, error_code: int) -> None:
    """Abandon this generation's assignment: answer the parked SyncGroups with an error and drop all assignments."""
    for member in group.members.values():
        member.assignment = b""
        if answer_sync(member, decision, Synced(error_code=error_code)):
            renew_session(group, member, decision)


def remove_member(group: ClassicGroup, member: Member, decision: DecisionBuilder) -> None:
    """Remove a member and answer its parked requests.  The caller decides whether to rebalance."""
    answer_join(group, member, decision, Joined(error_code=errors.UNKNOWN_MEMBER_ID))
    answer_sync(member, decision, Synced(error_code=errors.UNKNOWN_MEMBER_ID))
    decision.deadlines.cancel(group.session_key(member.member_id))
    group.remove(member.member_id)


def renew_session(group: ClassicGroup, member: Member, decision: DecisionBuilder) -> None:
    decision.wake_after(group.session_key(member.member_id), member.session_timeout_ms)


def answer_join(group: ClassicGroup, member: Member, decision: DecisionBuilder, response: Joined) -> bool:
    waiter = group.take_join_waiter(member)
    if waiter is not None:
        decision.reply(waiter, response)
    return waiter is not None


def answer_sync(member: Member, decision: DecisionBuilder, response: Synced) -> bool:
    waiter, member.sync_waiter = member.sync_waiter, None
    if waiter is not None:
        decision.reply(waiter, response)
    return waiter is not None


def _leader_has_joined(group: ClassicGroup) -> bool:
    """Return whether the group's leader has joined.

    If it has not, the first member that has joined becomes the leader.  Return False only if no member has joined.
    """
    assert group.leader is not None
    if group.members[group.leader].join_waiter is not None:
        return True
    successor = next((m for m in group.members.values() if m.join_waiter is not None), None)
    if successor is not None:
        group.leader = successor.member_id
    return successor is not None
