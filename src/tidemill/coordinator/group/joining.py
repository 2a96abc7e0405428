"""Handles JoinGroup: admits new members, lets known members join again, and starts a rebalance if needed."""

from tidemill.coordinator.group import rebalance
from tidemill.coordinator.group.classic_group import ClassicGroup, GroupState, Member
from tidemill.coordinator.group.decision_builder import DecisionBuilder
from tidemill.coordinator.group.group_settings import NEW_MEMBER_JOIN_TIMEOUT_MS, PENDING_MEMBERS_MAX
from tidemill.coordinator.group.log_records import group_metadata
from tidemill.coordinator.group.requests import Join
from tidemill.coordinator.group.responses import Joined, Synced
from tidemill.coordinator.record_fields import name_fits
from tidemill.model import errors
from tidemill.model.dead_letters import is_redrive

S = GroupState


def problem(request: Join, decision: DecisionBuilder) -> int:
    """Return the error code for a request that would be invalid for any group; NONE if there is no such problem."""
    settings = decision.settings
    if not request.group_id or not name_fits(request.group_id) or is_redrive(request.group_id):
        return errors.INVALID_GROUP_ID
    if not settings.session_timeout_ms_min <= request.session_timeout_ms <= settings.session_timeout_ms_max:
        return errors.INVALID_SESSION_TIMEOUT
    names = (request.client_host, request.protocol_type, *(name for name, _ in request.protocols))
    # Check the name with 64 more bytes: a member id is the client id or instance id followed by a UUID.
    longest = max(request.client_id, request.instance_id or "", key=len)
    if not name_fits(longest + " " * 64) or not all(map(name_fits, names)):
        return errors.INVALID_REQUEST
    return errors.NONE


def join(group: ClassicGroup, request: Join, decision: DecisionBuilder) -> bool:
    """Handle a JoinGroup.  Return whether it changed the group; the caller drops a new group that is unchanged."""
    member_id = request.member_id
    if not _fits_group_size(group, member_id, decision):
        if (member := group.members.get(member_id)) is not None:
            rebalance.remove_member(group, member, decision)
        elif member_id in group.pending_joins:
            group.remove(member_id)
            decision.deadlines.cancel(group.session_key(member_id))
        decision.reply(request.waiter, Joined(error_code=errors.GROUP_MAX_SIZE_REACHED))
        return False
    if not group.supports(request.protocol_type, request.protocols):
        decision.reply(request.waiter, Joined(error_code=errors.INCONSISTENT_GROUP_PROTOCOL, member_id=member_id))
        return False
    if member_id:
        _join_known(group, request, decision)
    elif request.instance_id is not None:
        _join_static(group, request, decision)
    elif request.must_know_member_id:
        return _assign_member_id(group, request, decision)
    else:
        _add(group, request, _new_member_id(request, decision), decision)
    return True


def _fits_group_size(group: ClassicGroup, member_id: str, decision: DecisionBuilder) -> bool:
    """Return whether the member may join under group.max.size.

    While a rebalance is being prepared, only members that have joined again count, so the last members to join are
    rejected.
    """
    member = group.members.get(member_id)
    if group.state is S.EMPTY:
        return True
    if group.state is S.PREPARING_REBALANCE:
        return (
            member is not None and member.join_waiter is not None
        ) or group.joins_parked < decision.settings.size_max
    return member is not None or len(group.members) < decision.settings.size_max


def _assign_member_id(group: ClassicGroup, request: Join, decision: DecisionBuilder) -> bool:
    """Answer a new dynamic member with a member id, which it must use to join again (KIP-394).

    A client that gives up between its two requests thus leaves an unused id instead of a member.
    """
    if len(group.pending_joins) >= PENDING_MEMBERS_MAX:
        decision.reply(request.waiter, Joined(error_code=errors.GROUP_MAX_SIZE_REACHED))
        return False
    member_id = _new_member_id(request, decision)
    group.pending_joins[member_id] = None
    decision.wake_after(group.session_key(member_id), request.session_timeout_ms)
    decision.reply(request.waiter, Joined(error_code=errors.MEMBER_ID_REQUIRED, member_id=member_id))
    return True


def _join_static(group: ClassicGroup, request: Join, decision: DecisionBuilder) -> None:
    """Handle a join by a static member without a member id: the instance is new, or its client was restarted."""
    assert request.instance_id is not None
    new_member_id = _new_member_id(request, decision)
    current = group.static_members.get(request.instance_id)
    if current is None:
        _add(group, request, new_member_id, decision)
        return
    member = group.members[current]
    old_leader = group.leader or ""
    fenced = Joined(error_code=errors.FENCED_INSTANCE_ID, member_id=current)
    # The process that joins later under an instance id wins, and the earlier one is fenced.
    rebalance.answer_join(group, member, decision, fenced)
    rebalance.answer_sync(member, decision, Synced(error_code=errors.FENCED_INSTANCE_ID))
    decision.deadlines.cancel(group.session_key(current))
    group.replace_static(member, new_member_id)
    rebalance.cancel_sync_deadline_if_done(group, decision)
    _update(group, member, request)
    rebalance.renew_session(group, member, decision)

    if group.state is not S.STABLE:
        # The member needs a new generation: in COMPLETING, the leader may be about to send an assignment for the old
        # member id, which no longer exists.
        group.park_join(member, request.waiter)
        rebalance.prepare_or_complete(group, decision)
        return
    record = group_metadata(group.group_id, group.logged())
    too_large = len(record.value or b"") > decision.settings.group_metadata_bytes_max
    if group.select_protocol() != group.protocol_name or too_large:
        group.park_join(member, request.waiter)
        rebalance.prepare(group, decision)
        return
    # No rebalance is needed: the instance keeps its assignment, and only its new member id is logged (KIP-345).
    decision.records.append(record)
    leads = group.leader == new_member_id
    skip = leads and request.can_skip_assignment
    decision.reply(
        request.waiter,
        Joined(
            member_id=new_member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            # Before v9, the response cannot tell a leader to skip the assignment.  A leader that finds its old member
            # id in this field acts as a follower.
            leader=(group.leader or "") if request.can_skip_assignment else old_leader,
            skip_assignment=skip,
            members=group.joined_members() if skip else (),
        ),
    )


def _join_known(group: ClassicGroup, request: Join, decision: DecisionBuilder) -> None:
    """Handle a join with a member id: a member joins again, or a client uses an assigned id for the first time."""
    member_id = request.member_id
    if member_id in group.pending_joins and request.instance_id is None:
        _add(group, request, member_id, decision)
        return
    error_code = group.member_problem(member_id, request.instance_id)
    if error_code != errors.NONE:
        decision.reply(request.waiter, Joined(error_code=error_code, member_id=member_id))
        return
    member = group.members[member_id]
    leads = group.leader == member_id
    unchanged = member.protocols == request.protocols
    if unchanged and (group.state is S.COMPLETING_REBALANCE or (group.state is S.STABLE and not leads)):
        # The member did not receive the response to its last JoinGroup.  It is still part of this generation.
        decision.reply(
            request.waiter,
            Joined(
                member_id=member_id,
                generation=group.generation,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                leader=group.leader or "",
                members=group.joined_members() if leads else (),
            ),
        )
        return
    # A leader that joins a stable group again wants a new assignment: topics or partitions have changed.
    _park(group, member, request, decision)
    rebalance.prepare_or_complete(group, decision)


def _add(group: ClassicGroup, request: Join, member_id: str, decision: DecisionBuilder) -> None:
    member = Member(
        member_id=member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=_rebalance_timeout_ms(request),
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
        is_new=True,
    )
    group.joined_since_delay = True
    group.add(member, request.protocol_type)
    group.park_join(member, request.waiter)
    decision.wake_after(group.session_key(member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalance.prepare_or_complete(group, decision)


def _park(group: ClassicGroup, member: Member, request: Join, decision: DecisionBuilder) -> None:
    """Park the request.

    An earlier parked JoinGroup of the same member is answered with an error: its connection is most likely closed.
    """
    rebalance.answer_join(group, member, decision, Joined(error_code=errors.REBALANCE_IN_PROGRESS))
    _update(group, member, request)
    group.park_join(member, request.waiter)


def _update(group: ClassicGroup, member: Member, request: Join) -> None:
    group.change_protocols(member, request.protocols)
    member.rebalance_timeout_ms = _rebalance_timeout_ms(request)
    member.session_timeout_ms = request.session_timeout_ms


def _rebalance_timeout_ms(request: Join) -> int:
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms


def _new_member_id(request: Join, decision: DecisionBuilder) -> str:
    """Return a member id in Kafka's format: client id or instance id, then a version 4 UUID."""
    drawn = bytearray(decision.entropy.random_bytes(16))
    drawn[6] = drawn[6] & 0x0F | 0x40
    drawn[8] = drawn[8] & 0x3F | 0x80
    text = drawn.hex()
    uuid = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    return f"{request.client_id if request.instance_id is None else request.instance_id}-{uuid}"
