"""`/v1/groups`: list, describe, configure and delete groups, both consumer groups and share groups."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tidemill.http.v1.calls import Call, Refused, Route
from tidemill.http.v1.configs import alter_configs
from tidemill.http.v1.group_coordinators import (
    GroupMember,
    ask_coordinator,
    describe_group,
    has_members,
    list_all,
    missing,
)
from tidemill.http.v1.kafka_errors import check
from tidemill.http.v1.rights import ALTER_GROUP, DELETE_GROUP, DESCRIBE_GROUP, DESCRIBE_GROUP_CONFIGS
from tidemill.metadata.metadata_records import GROUP_RESOURCE, ConfigResource
from tidemill.model import errors
from tidemill.wire.messages import delete_groups

LIMIT_MAX: Final = 1_000


class GroupsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: Annotated[str, Meta(description="Groups with greater names only.")] = ""
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = 100


class GroupRow(msgspec.Struct, frozen=True):
    group: str
    type: Annotated[str, Meta(description="Classic, a consumer group, or Share.")]
    state: str


class Groups(msgspec.Struct, frozen=True):
    groups: list[GroupRow]
    more: bool


class Group(msgspec.Struct, frozen=True):
    group: str
    type: str
    state: str
    coordinator: int | None
    members: list[GroupMember]
    configs: dict[str, str]


class GroupChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    configs: Annotated[
        dict[str, str | None], Meta(min_length=1, description="Values to set; null restores the default.")
    ]


async def list_groups(call: Call) -> Groups:
    query: GroupsQuery = call.query
    found = [it for it in await list_all(call.brokers) if it.group_id > query.after]
    rows = [GroupRow(it.group_id, it.group_type, it.group_state) for it in found[: query.limit]]
    return Groups(rows, more=len(found) > query.limit)


async def describe(call: Call) -> Group:
    name = call.names["group"]
    configs = dict(call.brokers.image.configs.get(ConfigResource(GROUP_RESOURCE, name), {}))
    try:
        found = await describe_group(call.brokers, name)
    except Refused as refused:
        if refused.answer.status != 404:
            raise
        raise refused.with_fields(configs=configs) from refused  # those of a group that does not exist yet
    return Group(
        group=found.name,
        type=found.type,
        state=found.state,
        coordinator=call.brokers.coordinator(found.name),
        members=sorted(found.members, key=lambda it: it.member_id),
        configs=configs,
    )


async def change(call: Call) -> None:
    """Set the configuration, also of a group that does not exist yet, as Kafka's tools can."""
    group = call.names["group"]
    await alter_configs(call.brokers, ConfigResource(GROUP_RESOURCE, group), call.body.configs, f"group {group[:300]}")


async def delete(call: Call) -> None:
    group = call.names["group"]
    if call.brokers.coordinators() == frozenset():
        raise missing(group)
    request = delete_groups.Request(groups_names=[group])
    response = await ask_coordinator(
        call.brokers, group, delete_groups.API, request, lambda response: [it.error_code for it in response.results]
    )
    (answer,) = response.results
    if answer.error_code == errors.GROUP_ID_NOT_FOUND:
        raise missing(group)
    if answer.error_code == errors.NON_EMPTY_GROUP:
        raise has_members(group, "is deleted")
    check(answer.error_code, None, f"group {group}")


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/groups",
        access=DESCRIBE_GROUP,
        handler=list_groups,
        query=GroupsQuery,
        response=Groups,
        summary="List groups in the order of their names.",
    ),
    Route(
        method="GET",
        path="/v1/groups/{group}",
        access=DESCRIBE_GROUP_CONFIGS,
        handler=describe,
        response=Group,
        summary="Show a group's state, members and own configuration.",
    ),
    Route(
        method="PATCH",
        path="/v1/groups/{group}",
        access=ALTER_GROUP,
        handler=change,
        body=GroupChange,
        example={"configs": {"share.delivery.count.limit": "10"}},
        response=None,
        status=204,
        summary="Set and restore configuration, also of a group that does not exist yet.",
    ),
    Route(
        method="DELETE",
        path="/v1/groups/{group}",
        access=DELETE_GROUP,
        handler=delete,
        response=None,
        status=204,
        summary="Delete a group without members, and its offsets.",
    ),
)
