"""Reads and commits the offsets of a consumer group without joining it, as a simple consumer does."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import ClientError
from tidemill.client.group_coordinator import GroupCoordinator
from tidemill.model import errors
from tidemill.model.partition import TopicPartition
from tidemill.wire.messages import describe_groups, offset_commit, offset_fetch
from tidemill.wire.schema import Api, Message

_NO_OFFSET: Final = -1
_NO_GENERATION: Final = -1  # a simple consumer is not a member of the group
_FETCH_ONE_GROUP: Final = 7  # later versions of OffsetFetch take a list of groups
_COMMIT_BY_NAME: Final = 9  # later versions of OffsetCommit identify topics by id
_DESCRIBE_WITHOUT_ERRORS: Final = 5  # later versions of DescribeGroups return an error instead of a group in state Dead

_ONLY_FOR_MEMBERS: Final = frozenset({errors.UNKNOWN_MEMBER_ID, errors.ILLEGAL_GENERATION, errors.STALE_MEMBER_EPOCH})


class GroupHasMembers(ClientError):
    """The group has active members, so it accepts commits only from them."""

    def __init__(self, group: str, count: int | None = None) -> None:
        members = "live members" if count is None else f"{count} live member{'' if count == 1 else 's'}"
        super().__init__(
            f"group {group!r} has {members}, and only members may commit its offsets: stop them, or choose a group "
            "that no consumer uses"
        )


class GroupOffsets:
    """Reads and commits the offsets of one group over the connections of `cluster`.  Not thread-safe."""

    def __init__(self, cluster: ClusterMetadata, group: str, *, deadline_ms: int | None = None) -> None:
        """`deadline_ms` limits how long one call may retry, by default `default.api.timeout.ms`."""
        self._group = group
        self._coordinator = GroupCoordinator(cluster, group, deadline_ms=deadline_ms)

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """
        Return the committed offsets of `partitions`; partitions without a committed offset are left out.

        Raise RetriesExhausted, or ClientError if the broker refuses the request.
        """
        topics = [
            offset_fetch.Request.Topic(name=topic, partition_indexes=list(numbers))
            for topic, numbers in _by_topic(dict.fromkeys(partitions, _NO_OFFSET)).items()
        ]
        request = offset_fetch.Request(group_id=self._group, topics=topics, require_stable=True)

        def problems(response: Any) -> Iterable[int]:
            return [response.error_code, *(one.error_code for topic in response.topics for one in topic.partitions)]

        response = self._ask(offset_fetch.API, request, _FETCH_ONE_GROUP, problems, "does not return its offsets")
        return {
            TopicPartition(topic.name, one.partition_index): one.committed_offset
            for topic in response.topics
            for one in topic.partitions
            if one.committed_offset != _NO_OFFSET
        }

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """
        Commit `offsets`.

        Raise GroupHasMembers, RetriesExhausted, or ClientError if the broker refuses the request.
        """
        topics = [
            offset_commit.Request.Topic(
                name=topic,
                partitions=[
                    offset_commit.Request.Topic.Partition(
                        partition_index=number, committed_offset=offset, committed_metadata=""
                    )
                    for number, offset in numbers.items()
                ],
            )
            for topic, numbers in _by_topic(offsets).items()
        ]
        request = offset_commit.Request(
            group_id=self._group, generation_id_or_member_epoch=_NO_GENERATION, member_id="", topics=topics
        )

        def problems(response: Any) -> Iterable[int]:
            return [one.error_code for topic in response.topics for one in topic.partitions]

        self._ask(offset_commit.API, request, _COMMIT_BY_NAME, problems, "refuses a commit")

    def refuse_members(self) -> None:
        """Raise GroupHasMembers if the group has active members.

        Raise RetriesExhausted, or ClientError if the broker refuses the request.
        """
        request = describe_groups.Request(groups=[self._group])

        def problems(response: Any) -> Iterable[int]:
            return [group.error_code for group in response.groups]

        response = self._ask(describe_groups.API, request, _DESCRIBE_WITHOUT_ERRORS, problems, "cannot be described")
        count = sum(len(group.members) for group in response.groups)
        if count:
            raise GroupHasMembers(self._group, count)

    def _ask(
        self, api: Api, request: Message, newest: int, problems: Callable[[Any], Iterable[int]], failing: str
    ) -> Any:
        """Send a request to the coordinator.  `problems` returns a response's error codes."""
        response = self._coordinator.ask(api, request, problems, failing=failing, newest=newest)
        codes = [code for code in problems(response) if code != errors.NONE]
        if not codes:
            return response
        if codes[0] in _ONLY_FOR_MEMBERS:
            raise GroupHasMembers(self._group)
        raise ClientError(f"group {self._group!r} {failing}: {errors.name(codes[0])}")


def _by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    by_topic: dict[str, dict[int, int]] = {}
    for (topic, number), offset in offsets.items():
        by_topic.setdefault(topic, {})[number] = offset
    return by_topic
