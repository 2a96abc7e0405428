"""Reads and commits the offsets of a consumer group without joining it, as a simple consumer does."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import Endpoint
from tidemill.client.failures import BrokerUnreachable, ClientError
from tidemill.model import errors
from tidemill.model.partition import TopicPartition
from tidemill.wire.messages import describe_groups, find_coordinator, offset_commit, offset_fetch
from tidemill.wire.schema import Api, Message

_NO_OFFSET: Final = -1
_NO_GENERATION: Final = -1  # a simple consumer is not a member of the group
_FIND_ONE_GROUP: Final = 3  # later versions of FindCoordinator take a list of keys
_FETCH_ONE_GROUP: Final = 7  # later versions of OffsetFetch take a list of groups
_COMMIT_BY_NAME: Final = 9  # later versions of OffsetCommit identify topics by id
_DESCRIBE_WITHOUT_ERRORS: Final = 5  # later versions of DescribeGroups return an error instead of a group in state Dead

_COORDINATOR_MOVED: Final = frozenset(
    {
        errors.COORDINATOR_LOAD_IN_PROGRESS,
        errors.COORDINATOR_NOT_AVAILABLE,
        errors.NOT_COORDINATOR,
        errors.REQUEST_TIMED_OUT,
        errors.NETWORK_EXCEPTION,
        errors.UNSTABLE_OFFSET_COMMIT,  # a pending transaction contains these offsets
    }
)
_ONLY_FOR_MEMBERS: Final = frozenset({errors.UNKNOWN_MEMBER_ID, errors.ILLEGAL_GENERATION, errors.STALE_MEMBER_EPOCH})


class CoordinatorMoved(ClientError):
    """The group's coordinator is starting or has moved.  The request is sent again after a pause."""


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
        self._cluster = cluster
        self._group = group
        self._deadline_ms = deadline_ms
        self._coordinator: Endpoint | None = None

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
        """Send a request to the coordinator, and retry after it moves.  `problems` returns a response's error codes."""
        back_off = self._cluster.back_off(self._deadline_ms)
        while True:
            failure: ClientError
            try:
                connection = self._cluster.connection_at(self._find_coordinator())
                response = connection.request(api, request, version=connection.version_of(api, newest=newest))
                codes = [code for code in problems(response) if code != errors.NONE]
                if not codes:
                    return response
                if codes[0] in _ONLY_FOR_MEMBERS:
                    raise GroupHasMembers(self._group)
                sentence = f"group {self._group!r} {failing}: {errors.name(codes[0])}"
                if codes[0] not in _COORDINATOR_MOVED:
                    raise ClientError(sentence)
                failure = CoordinatorMoved(sentence)
            except (BrokerUnreachable, CoordinatorMoved) as error:
                failure = error
            self._coordinator = None
            back_off.pause(failure)

    def _find_coordinator(self) -> Endpoint:
        if self._coordinator is None:
            response = self._cluster.ask_any(self._ask_for_coordinator)
            if response.error_code != errors.NONE:
                kind = CoordinatorMoved if response.error_code in _COORDINATOR_MOVED else ClientError
                raise kind(f"group {self._group!r} has no coordinator: {errors.name(response.error_code)}")
            self._coordinator = Endpoint(response.host, response.port)
        return self._coordinator

    def _ask_for_coordinator(self, connection: BrokerConnection) -> find_coordinator.Response:
        response: find_coordinator.Response = connection.request(
            find_coordinator.API,
            find_coordinator.Request(key=self._group),
            version=connection.version_of(find_coordinator.API, newest=_FIND_ONE_GROUP),
        )
        return response


def _by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    by_topic: dict[str, dict[int, int]] = {}
    for (topic, number), offset in offsets.items():
        by_topic.setdefault(topic, {})[number] = offset
    return by_topic
