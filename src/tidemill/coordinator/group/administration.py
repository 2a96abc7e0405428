"""Answers DescribeGroups and ListGroups, which tools and administrators send."""

from collections.abc import Iterable

from tidemill.coordinator.group.classic_group import ClassicGroup, GroupState
from tidemill.coordinator.group.requests import ListGroups
from tidemill.coordinator.group.responses import DescribedGroup, DescribedMember, GroupsListed, ListedGroup
from tidemill.coordinator.share_group.share_groups import GROUP_TYPE as SHARE_GROUP_TYPE
from tidemill.coordinator.share_group.share_groups import PROTOCOL_TYPE
from tidemill.model import errors

GROUP_TYPE = "Classic"


def describe(group_id: str, group: ClassicGroup | None, *, is_share: bool = False) -> DescribedGroup:
    """Return the description of a group.

    An unknown group, or a group of another type, is described with the state Dead and the error GROUP_ID_NOT_FOUND,
    which clients get from v6 on (KIP-1043).
    """
    if group is None:
        return DescribedGroup(
            group_id=group_id,
            error_code=errors.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} is not a classic group." if is_share else f"Group {group_id} not found.",
        )
    protocol_name = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        state=str(group.state),
        protocol_type=group.protocol_type or "",
        protocol_name=protocol_name or "",
        members=tuple(
            DescribedMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=b"" if protocol_name is None else member.metadata(protocol_name),
                assignment=member.assignment,
            )
            for member in group.members.values()
        ),
    )


def list_groups(
    groups: Iterable[ClassicGroup], share_groups: Iterable[tuple[str, str]], request: ListGroups
) -> GroupsListed:
    """
    Return the groups that `request` selects, of the classic `groups` and the `share_groups` (group id, state).
    """
    states = {state.strip().lower() for state in request.states}
    types = {type_name.strip().lower() for type_name in request.types}
    classic = (
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            state=str(group.state),
            type=GROUP_TYPE,
        )
        for group in groups
    )
    share = (
        ListedGroup(group_id=group_id, protocol_type=PROTOCOL_TYPE, state=state, type=SHARE_GROUP_TYPE)
        for group_id, state in share_groups
    )
    return GroupsListed(
        groups=tuple(
            group
            for group in (*classic, *share)
            if (not states or group.state.lower() in states) and (not types or group.type.lower() in types)
        )
    )
