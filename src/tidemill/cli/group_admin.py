"""Requests about groups of all types, for `tidemill groups`.

Those about consumer groups use confluent-kafka, except for reading committed offsets.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tidemill.cli.coordinator_requests import CoordinatorRequests, check
from tidemill.cli.failure import Failed
from tidemill.cli.kafka import REQUEST_TIMEOUT_S, awaited, client_config, error_name, failed
from tidemill.cli.output import counted
from tidemill.cli.refusal import refusal
from tidemill.cli.share_group_admin import SHARE, ShareGroupAdmin
from tidemill.cli.topic_admin import Partition, TopicAdmin
from tidemill.wire.messages import offset_fetch

CLASSIC: Final = "Classic"
LIST_TIMEOUT_S: Final = 10.0  # how long confluent-kafka waits for a broker that has just died
_OFFSETS_OF_ONE_GROUP: Final = 7  # later versions of OffsetFetch take a list of groups
PAUSE_S: Final = 0.1  # before the coordinator is looked up again
_MOVED: Final = frozenset({"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"})
_STATES: Final = {
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
}
"""Kafka's names of the states that librdkafka names differently."""
T = TypeVar("T")


class GroupAdmin:
    """Requests about groups.  Every method raises `Failed` if a broker refuses or does not respond."""

    def __init__(
        self, bootstrap: str, topics: TopicAdmin, requests: CoordinatorRequests, share_groups: ShareGroupAdmin
    ) -> None:
        self._bootstrap = bootstrap
        self._requests = requests
        self._share_groups = share_groups
        self.topics = topics
        self._client = topics.client

    def rows(self) -> tuple[list[dict[str, Any]], Failed | None]:
        """Return the rows of `groups list`, ordered by name, and an error if a broker could not list its groups."""
        future = self._client.list_consumer_groups(request_timeout=LIST_TIMEOUT_S)
        listed = awaited(future, "groups", self._bootstrap)
        rows = [
            {"group": it.group_id, "state": state_name(it.state), "type": _type_name(it.type)} for it in listed.valid
        ]
        rows += self._share_groups.rows()  # confluent-kafka leaves them out
        problem = None
        if listed.errors:
            first = listed.errors[0]  # a KafkaException or a KafkaError, depending on the failure
            error = first.args[0] if isinstance(first, KafkaException) else first
            problem = refusal(error_name(error), "groups", f"the list is incomplete: {error.str()}")
        return sorted(rows, key=lambda row: row["group"]), problem

    def description_of(self, group: str) -> dict[str, Any]:
        """Return the object that `groups describe` prints: the group, its members and its partitions.

        Raise `Failed` (GROUP_ID_NOT_FOUND) if the group does not exist.
        """
        described = self._described(group)
        if described is None:
            shared = self._share_groups.description_of(group)
            if shared is None:
                raise refusal("GROUP_ID_NOT_FOUND", f"group {group!r}", "it does not exist")
            return shared
        committed = self._committed(group)
        members = sorted(map(_member, described.members), key=lambda member: member["member_id"])
        owners = {
            (it["topic"], it["partition"]): member["member_id"] for member in members for it in member["partitions"]
        }
        partitions = sorted({*committed, *owners})
        ends = self.topics.end_offsets(partitions)
        rows = [
            {
                "topic": partition[0],
                "partition": partition[1],
                "committed": committed.get(partition),
                "end_offset": ends.get(partition),
                "lag": ends[partition] - committed[partition] if partition in ends and partition in committed else None,
                "owner": owners.get(partition),
            }
            for partition in partitions
        ]
        coordinator = described.coordinator
        return {
            "group": group,
            "state": state_name(described.state),
            "type": _type_name(described.type),
            "assignor": described.partition_assignor or None,
            "coordinator": {"id": coordinator.id, "host": coordinator.host, "port": coordinator.port},
            "total_lag": sum(row["lag"] or 0 for row in rows),
            "members": members,
            "partitions": rows,
        }

    def offsets(self, group: str, *, is_share: bool) -> Mapping[Partition, int | None]:
        """
        Return the group's committed offsets, or the start offsets of a share group; None where it has not read the
        partition.
        """
        return self._share_groups.starts(group) if is_share else self._committed(group)

    def set_offsets(self, group: str, offsets: Mapping[Partition, int], *, is_share: bool) -> None:
        """Set the offsets without joining the group.  This creates the group if it does not exist."""
        if is_share:
            self._share_groups.alter(group, offsets)
        else:
            self._commit(group, offsets)

    def _committed(self, group: str) -> dict[Partition, int]:
        # In confluent-kafka's `list_consumer_group_offsets`, NOT_COORDINATOR would end the process (librdkafka's issue
        # 5040).
        request = offset_fetch.Request(group_id=group, topics=None)
        found = self._requests.ask(
            group, offset_fetch.API, request, lambda it: [it.error_code], newest=_OFFSETS_OF_ONE_GROUP
        )
        about = f"group {group!r}"
        check(found, about)
        committed = {}
        for topic in found.topics:
            for it in topic.partitions:
                check(it, f"{about}, {topic.name}-{it.partition_index}")
                if it.committed_offset >= 0:
                    committed[topic.name, it.partition_index] = it.committed_offset
        return committed

    def _commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        about = f"group {group!r}"
        changes = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        self._answer(
            group,
            lambda it: it.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group, changes)], request_timeout=REQUEST_TIMEOUT_S
            )[group],
            lambda it: self._check(it.topic_partitions, about),
        )

    def delete(self, group: str) -> None:
        self._answer(group, lambda it: it.delete_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_S)[group])

    def type_without_members(self, group: str, refused: str) -> str | None:
        """Return the type of the group; None if it does not exist.  Raise `Failed` (NON_EMPTY_GROUP) if it has members.

        `refused` is the action that is refused for a group with members; the error quotes it.
        """
        described = self._described(group)
        if described is not None:
            state, type_name = state_name(described.state), _type_name(described.type) or CLASSIC
            is_empty = described.state is ConsumerGroupState.EMPTY
        else:
            described = self._share_groups.described(group)
            if described is None:
                return None
            state, type_name, is_empty = described.group_state, SHARE, not described.members
        if not is_empty:
            members = counted(len(described.members), "active member")
            reason = f"{refused} while it is in use (state {state}, {members})"
            raise refusal("NON_EMPTY_GROUP", f"group {group!r}", reason)
        return type_name

    def _described(self, group: str) -> Any:
        """Return confluent-kafka's description of the group, or None if the group does not exist."""
        try:
            described = self._answer(
                group, lambda it: it.describe_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_S)[group]
            )
        except Failed as problem:
            if problem.name == "GROUP_ID_NOT_FOUND":  # DescribeGroups returns it from version 6 on (KIP-1043)
                return None
            raise
        return None if described.state is ConsumerGroupState.DEAD else described

    def _answer(
        self, group: str, ask: Callable[[AdminClient], "Future[T]"], check_answer: Callable[[T], None] = lambda _: None
    ) -> T:
        """
        Return the coordinator's response.  `check_answer` raises `Failed` if the response contains an error.  After the
        coordinator has moved, a new client asks: librdkafka remembers the coordinator of a group, also after
        NOT_COORDINATOR.
        """
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            try:
                answer = awaited(ask(self._client), f"group {group!r}", self._bootstrap)
                check_answer(answer)
                return answer
            except Failed as problem:
                if problem.name not in _MOVED or time.monotonic() > deadline:
                    raise
            time.sleep(PAUSE_S)
            self._client = AdminClient(client_config(self._bootstrap))

    def _check(self, partitions: list[TopicPartition], about: str) -> None:
        """Raise `Failed` if the response contains an error for a partition.  `about` is the subject of the request."""
        for it in partitions:
            if it.error is not None:
                error = it.error.args[0] if isinstance(it.error, KafkaException) else it.error
                raise failed(error, f"{about}, {it.topic}-{it.partition}", self._bootstrap)


def _member(member: Any) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "partitions": [
            {"topic": it.topic, "partition": it.partition}
            for it in sorted(member.assignment.topic_partitions, key=lambda it: (it.topic, it.partition))
        ],
    }


def state_name(state: Any) -> str:
    return _STATES.get(state) or str(state.name).capitalize()


def _type_name(group_type: Any) -> str | None:
    """Return `Classic` or `Consumer`, or None if the broker is too old to report it."""
    return None if group_type.name == "UNKNOWN" else str(group_type.name).capitalize()
