"""Asks the coordinators of groups, wherever they move, for the list of groups and the description of one."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tidemill.coordinator.group.assignment import assigned
from tidemill.http.v1.brokers import Brokers, Unreachable
from tidemill.http.v1.calls import Refused
from tidemill.http.v1.kafka_errors import RETRY_AFTER_S, check
from tidemill.http.v1.retries import retried
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.wire.messages import describe_groups, list_groups, share_group_describe
from tidemill.wire.schema import Api, Message

CLASSIC: Final = "Classic"
SHARE: Final = "Share"
_MOVED: Final = frozenset({
    errors.COORDINATOR_LOAD_IN_PROGRESS,
    errors.COORDINATOR_NOT_AVAILABLE,
    errors.NOT_COORDINATOR,
    errors.REQUEST_TIMED_OUT,
})  # fmt: skip
Codes = Callable[[Any], Iterable[int]]
"""Returns the error codes of a response."""


class GroupPartition(msgspec.Struct, frozen=True):
    topic: str
    partition: int


class GroupMember(msgspec.Struct, frozen=True):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[GroupPartition]


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """A group as its coordinator describes it."""

    name: str
    type: str
    state: str
    members: list[GroupMember]

    @property
    def is_share(self) -> bool:
        return self.type == SHARE


def missing(group: str) -> Refused:
    return Refused(404, f"group {group[:300]} does not exist", error=errors.name(errors.GROUP_ID_NOT_FOUND))


def has_members(group: str, refused: str) -> Refused:
    return Refused(
        409,
        f"group {group[:300]} has members, and {refused} only without them: stop its consumers",
        error=errors.name(errors.NON_EMPTY_GROUP),
    )


async def ask_coordinator(brokers: Brokers, group: str, api: Api, request: Message, codes: Codes) -> Any:
    """Return the response of a group's coordinator.  Ask again while it moves.  Raise Refused."""

    async def attempt() -> Any:
        coordinator = brokers.coordinator(group)
        return None if coordinator is None else await _response(brokers, coordinator, api, request, codes)

    return await retried(attempt, lambda: _without_coordinator(f"group {group[:300]} has no coordinator"))


async def list_all(brokers: Brokers) -> list[list_groups.Response.Group]:
    """Return all groups in the order of their names.  Raise Refused if one of the coordinators is not known."""

    async def attempt() -> list[list_groups.Response.Group] | None:
        coordinators = brokers.coordinators()
        if coordinators is None:
            return None
        asked = (
            _response(brokers, it, list_groups.API, list_groups.Request(), lambda response: [response.error_code])
            for it in coordinators
        )
        responses = [it for it in await asyncio.gather(*asked) if it is not None]
        if len(responses) < len(coordinators) or brokers.coordinators() != coordinators:
            return None  # the groups of a coordinator that has moved meanwhile may be missing
        for response in responses:
            check(response.error_code, None, "groups")
        return sorted((row for response in responses for row in response.groups), key=lambda row: row.group_id)

    return await retried(attempt, lambda: _without_coordinator("some groups have no coordinator"))


async def describe_group(brokers: Brokers, group: str) -> KnownGroup:
    """Return a group of either type.  Raise Refused: 404 if it does not exist."""
    if brokers.coordinators() == frozenset():
        raise missing(group)  # there has been no group yet
    classic = await _described_classic(brokers, group)
    if classic is not None:
        return KnownGroup(group, CLASSIC, classic.group_state, [_classic_member(it) for it in classic.members])
    asked = share_group_describe.Request(group_ids=[group], include_authorized_operations=False)
    (share,) = (await ask_coordinator(brokers, group, share_group_describe.API, asked, _codes_of_groups)).groups
    if share.error_code == errors.GROUP_ID_NOT_FOUND:
        raise missing(group)
    check(share.error_code, share.error_message, f"group {group}")
    return KnownGroup(group, SHARE, share.group_state, [_share_member(it) for it in share.members])


async def check_not_classic(brokers: Brokers, group: str) -> None:
    """Raise Refused if the group is not a share group; it may not exist yet."""
    if brokers.coordinators() == frozenset():
        return  # there has been no group yet
    if await _described_classic(brokers, group) is not None:
        raise Refused(
            409,
            f"group {group[:300]} is a consumer group (type {CLASSIC}), and only a share group has a queue: choose "
            "another name",
            error=errors.name(errors.GROUP_ID_NOT_FOUND),  # as its requests to receive are answered
        )


async def _described_classic(brokers: Brokers, group: str) -> describe_groups.Response.Group | None:
    """Return a consumer group; None if it does not exist, or is a share group.  Raise Refused."""
    request = describe_groups.Request(groups=[group])
    (found,) = (await ask_coordinator(brokers, group, describe_groups.API, request, _codes_of_groups)).groups
    if found.error_code == errors.GROUP_ID_NOT_FOUND:
        return None
    check(found.error_code, found.error_message, f"group {group}")
    return found  # type: ignore[no-any-return]


async def _response(brokers: Brokers, coordinator: BrokerId, api: Api, request: Message, codes: Codes) -> Any:
    """Return a response; None if the coordinator has moved or cannot be reached."""
    try:
        response = await brokers.ask_listener(coordinator, api, request)
    except Unreachable:
        return None
    return None if any(code in _MOVED for code in codes(response)) else response


def _codes_of_groups(response: Any) -> Iterable[int]:
    return [it.error_code for it in response.groups]


def _without_coordinator(problem: str) -> Refused:
    name = errors.name(errors.COORDINATOR_NOT_AVAILABLE)
    return Refused(503, f"{problem} now: try again", retry_after_s=RETRY_AFTER_S, error=name)


def _classic_member(member: describe_groups.Response.Group.Member) -> GroupMember:
    partitions = [GroupPartition(*it) for it in assigned(bytes(member.member_assignment))]
    return GroupMember(member.member_id, member.group_instance_id, member.client_id, member.client_host, partitions)


def _share_member(member: share_group_describe.Response.Group.Member) -> GroupMember:
    topics = sorted(member.assignment.topic_partitions, key=lambda it: it.topic_name)
    partitions = [GroupPartition(it.topic_name, number) for it in topics for number in sorted(it.partitions)]
    return GroupMember(member.member_id, None, member.client_id, member.client_host, partitions)
