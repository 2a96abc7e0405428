"""Reads groups from their coordinators: the list of all groups; members and committed offsets of consumer groups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidemill.client.failures import ClientError
from tidemill.console.cluster_reader import ClusterReader
from tidemill.coordinator.group.assignment import assigned
from tidemill.model import errors
from tidemill.model.partition import TopicPartition
from tidemill.wire.messages import describe_groups, list_groups, offset_fetch

NO_OFFSET: Final = -1
SHARE: Final = "Share"  # the type of a share group
_OFFSET_FETCH_VERSION: Final = 8  # in this version, one request takes many groups, and topics are given by name


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    group_id: str
    state: str
    protocol_type: str
    coordinator: int
    group_type: str = ""

    @property
    def is_share(self) -> bool:
        """Whether the members share the records of partitions (KIP-932), rather than divide the partitions."""
        return self.group_type == SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetail:
    row: GroupRow
    assignor: str
    members: Sequence[MemberRow]
    members_by_partition: Mapping[TopicPartition, MemberRow] = field(default_factory=dict)


def list_all(reader: ClusterReader) -> tuple[list[GroupRow], tuple[str, ...]]:
    """Return the groups of all brokers that respond, ordered by id, and the problems with the others."""
    rows: list[GroupRow] = []
    problems = []
    for broker_id, broker in sorted(reader.brokers.items()):
        if broker.kafka is None:
            continue
        try:
            response: list_groups.Response = reader.ask(broker_id, list_groups.API, list_groups.Request())
        except ClientError as error:
            problems.append(f"Groups coordinated by broker {broker_id} are missing: {error}")
            continue
        if response.error_code != errors.NONE:
            name = errors.name(response.error_code)
            problems.append(f"Groups coordinated by broker {broker_id} are missing for the moment: {name}")
        rows += [
            GroupRow(
                group_id=it.group_id,
                state=it.group_state,
                protocol_type=it.protocol_type,
                coordinator=broker_id,
                group_type=it.group_type,
            )
            for it in response.groups
        ]
    return sorted(rows, key=lambda row: row.group_id), tuple(problems)


def committed(
    reader: ClusterReader, rows: Iterable[GroupRow]
) -> tuple[dict[str, dict[TopicPartition, int]], tuple[str, ...]]:
    """Return the committed offsets of each group, and a message about each problem."""
    by_coordinator: dict[int, list[str]] = {}
    for row in rows:
        by_coordinator.setdefault(row.coordinator, []).append(row.group_id)
    found: dict[str, dict[TopicPartition, int]] = {}
    problems = []
    for coordinator, groups in by_coordinator.items():
        request = offset_fetch.Request(
            groups=[offset_fetch.Request.Group(group_id=group_id, topics=None) for group_id in groups]
        )
        try:
            response: offset_fetch.Response = reader.ask(
                coordinator, offset_fetch.API, request, newest=_OFFSET_FETCH_VERSION
            )
        except ClientError as error:
            problems.append(f"Offsets committed to broker {coordinator} are missing: {error}")
            continue
        for group in response.groups:
            found[group.group_id] = {
                TopicPartition(topic.name, answer.partition_index): answer.committed_offset
                for topic in group.topics
                for answer in topic.partitions
                if answer.error_code == errors.NONE and answer.committed_offset != NO_OFFSET
            }
    return found, tuple(problems)


def describe(reader: ClusterReader, row: GroupRow) -> GroupDetail:
    """Return a group with its members.  Raise ClientError."""
    response: describe_groups.Response = reader.ask(
        row.coordinator, describe_groups.API, describe_groups.Request(groups=[row.group_id])
    )
    group = response.groups[0]
    if group.error_code not in (errors.NONE, errors.GROUP_ID_NOT_FOUND):
        raise ClientError(f"broker {row.coordinator} does not describe the group: {errors.name(group.error_code)}")
    members = [
        MemberRow(
            member_id=it.member_id,
            instance_id=it.group_instance_id,
            client_id=it.client_id,
            host=it.client_host,
            partitions=assigned(bytes(it.member_assignment)),
        )
        for it in group.members
    ]
    return GroupDetail(
        row=row,
        assignor=group.protocol_data,
        members=members,
        members_by_partition={partition: member for member in members for partition in member.partitions},
    )
