"""Requests about share groups, for `tidemill groups`.

They use Tidemill's own client, because confluent-kafka's admin client has no requests about share groups.
"""

from collections.abc import Mapping
from typing import Any, Final

from tidemill.cli.coordinator_requests import CoordinatorRequests, check
from tidemill.cli.refusal import refusal
from tidemill.cli.topic_admin import Partition, TopicAdmin
from tidemill.client.failures import BrokerUnreachable, ClientError, ProtocolMismatch
from tidemill.model import errors
from tidemill.wire.messages import (
    alter_share_group_offsets,
    describe_share_group_offsets,
    list_groups,
    share_group_describe,
)

SHARE: Final = "Share"
"""The type of share groups in the output, as ListGroups returns it."""

_LIST_WITH_TYPES: Final = 5  # earlier versions of ListGroups are those of brokers without share groups
Described = share_group_describe.Response.Group


class ShareGroupAdmin:
    """
    Requests about share groups.  Every method raises `Failed` if a broker refuses or does not respond.  A broker that
    is too old for share groups has none.
    """

    def __init__(self, requests: CoordinatorRequests, topics: TopicAdmin) -> None:
        self._requests = requests
        self._cluster = requests.cluster
        self._topics = topics

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of `groups list` for share groups.  Brokers that do not respond are left out."""
        try:
            self._cluster.refresh(())
            return [row for broker_id in self._cluster.broker_ids() for row in self._listed_by(broker_id)]
        except ClientError as problem:
            raise self._requests.failed("groups", problem) from problem

    def described(self, group: str) -> Described | None:
        """Return the description of a share group; None if there is none of that name."""
        request = share_group_describe.Request(group_ids=[group], include_authorized_operations=False)
        try:
            response = self._requests.ask(
                group, share_group_describe.API, request, lambda it: [one.error_code for one in it.groups]
            )
        except ProtocolMismatch:
            return None
        described: Described = response.groups[0]
        if described.error_code == errors.GROUP_ID_NOT_FOUND:
            return None
        check(described, f"group {group!r}")
        return described

    def description_of(self, group: str) -> dict[str, Any] | None:
        """Return the object that `groups describe` prints; None if there is no share group of that name."""
        described = self.described(group)
        if described is None:
            return None
        offsets = self._offsets(group)
        ends = self._topics.end_offsets(offsets)
        coordinator = self._requests.coordinator_of(group)
        rows = [
            {
                "topic": partition[0],
                "partition": partition[1],
                "start_offset": start,
                "end_offset": ends.get(partition),
                "lag": lag,
            }
            for partition, (start, lag) in sorted(offsets.items())
        ]
        return {
            "group": group,
            "state": described.group_state,
            "type": SHARE,
            "assignor": described.assignor_name or None,
            "coordinator": {
                "id": coordinator.broker_id,
                "host": coordinator.endpoint.host,
                "port": coordinator.endpoint.port,
            },
            "total_lag": sum(row["lag"] or 0 for row in rows),
            "members": sorted(map(_member, described.members), key=lambda member: str(member["member_id"])),
            "partitions": rows,
        }

    def starts(self, group: str) -> dict[Partition, int | None]:
        """
        Return the start offset of each partition of the topics that the group reads, or has read; None where it has
        not read the partition.
        """
        return {partition: start for partition, (start, _) in self._offsets(group).items()}

    def alter(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Set start offsets.  This creates the group if it does not exist."""
        asked = alter_share_group_offsets.Request.Topic
        by_topic: dict[str, list[alter_share_group_offsets.Request.Topic.Partition]] = {}
        for (topic, number), offset in offsets.items():
            by_topic.setdefault(topic, []).append(asked.Partition(partition_index=number, start_offset=offset))
        request = alter_share_group_offsets.Request(
            group_id=group, topics=[asked(topic_name=name, partitions=them) for name, them in by_topic.items()]
        )
        about = f"group {group!r}"
        try:
            response = self._requests.ask(group, alter_share_group_offsets.API, request, lambda it: [it.error_code])
        except ProtocolMismatch as problem:
            reason = "the broker cannot set the offsets of share groups"
            raise refusal("UNSUPPORTED_VERSION", about, reason) from problem
        check(response, about)
        for topic in response.responses:
            for partition in topic.partitions:
                check(partition, f"{about}, {topic.topic_name}-{partition.partition_index}")

    def _listed_by(self, broker_id: int) -> list[dict[str, Any]]:
        try:
            connection = self._cluster.connection_to(broker_id)
            if connection.version_of(list_groups.API) < _LIST_WITH_TYPES:
                return []
            response = connection.request(list_groups.API, list_groups.Request(types_filter=[SHARE]))
        except BrokerUnreachable:
            return []
        return [{"group": it.group_id, "state": it.group_state, "type": SHARE} for it in response.groups]

    def _offsets(self, group: str) -> dict[Partition, tuple[int | None, int | None]]:
        """Return start and lag of each partition; None where there is no start, or the lag is unknown."""
        asked = describe_share_group_offsets.Request.Group(group_id=group, topics=None)
        request = describe_share_group_offsets.Request(groups=[asked])
        response = self._requests.ask(
            group, describe_share_group_offsets.API, request, lambda it: [one.error_code for one in it.groups]
        )
        (found,) = response.groups
        check(found, f"group {group!r}")
        return {
            (topic.topic_name, it.partition_index): (_known(it.start_offset), _known(it.lag))
            for topic in found.topics
            for it in topic.partitions
        }


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _member(member: Described.Member) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": None,
        "client_id": member.client_id,
        "host": member.client_host,
        "partitions": [
            {"topic": topic.topic_name, "partition": number}
            for topic in sorted(member.assignment.topic_partitions, key=lambda it: it.topic_name)
            for number in sorted(topic.partitions)
        ],
    }
