"""Sends Tidemill's own requests to the leaders of partitions, again and again until one answers or a deadline passes.

A broker of Apache Kafka closes the connection, because it does not know the requests.  Nearly all of them may be
repeated, so a lost connection or a leader that moves ends no call.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from tidemill.client.cluster_metadata import ClusterMetadata, Leader, LeaderUnknown
from tidemill.client.failures import BrokerUnreachable, ClientError, RetriesExhausted, TopicRecreated, UnknownTopic
from tidemill.client.offset_lookup import LEADER_MOVED
from tidemill.model import errors
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId
from tidemill.wire.schema import Api, Message

VERSION: Final = 0  # ApiVersions does not list these requests
RETRIABLE: Final = LEADER_MOVED | {
    errors.COORDINATOR_NOT_AVAILABLE,
    errors.COORDINATOR_LOAD_IN_PROGRESS,
    errors.NOT_COORDINATOR,
    errors.UNKNOWN_TOPIC_ID,  # a broker may not know a new topic yet; metadata says whether a topic was deleted
}
_Answer = TypeVar("_Answer")


class RequestRefused(ClientError):
    """A broker refuses a request.  `name` is Kafka's name of the error."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class OutcomeUnknown(ClientError):
    """A request that may not be repeated was sent, and it is not known whether it has had an effect."""


class _Retried(ClientError):
    """The request is sent again after a pause, with new metadata."""


class LeaderRequests:
    """Uses the connections of `cluster`, one request at a time.  It is not thread-safe."""

    def __init__(
        self,
        cluster: ClusterMetadata,
        *,
        serving: str,
        refusal: type[RequestRefused] = RequestRefused,
        deadline_ms: int | None = None,
    ) -> None:
        """
        `serving` says what a broker that knows the requests serves, `refusal` is the error of a request that would be
        refused again.  `deadline_ms` limits how long one call may retry, by default `default.api.timeout.ms`.
        """
        self._cluster = cluster
        self._serving = serving
        self._refusal = refusal
        self._deadline_ms = deadline_ms

    def ask(
        self,
        api: Api,
        partition: TopicPartition,
        request: Callable[[TopicId], Message],
        about: str,
        topic_id: TopicId | None = None,
        *,
        is_repeatable: bool = True,
    ) -> tuple[TopicId, Any]:
        """
        Send a request to the partition's leader, and return the topic's id and the response.

        `about` begins the message of an error.  If `topic_id` is given, the topic must still have that id.  A request
        that is not repeatable is sent again only if no broker can have begun with it.  Raise an error of the type
        `refusal`, TopicRecreated, UnknownTopic, RetriesExhausted or, for such a request, OutcomeUnknown.
        """

        def ask() -> tuple[TopicId, Any]:
            leader = self.leader(partition)
            current = self.topic_id(partition.topic, topic_id)
            sent = request(current)
            return current, self.ask_broker(leader.broker_id, api, sent, about, is_repeatable=is_repeatable)

        return self.retried(partition.topic, ask, about)

    def ask_broker(self, broker_id: int, api: Api, request: Message, about: str, *, is_repeatable: bool = True) -> Any:
        """Send a request once, and return the response, whose error code is NONE."""
        connection = self._cluster.connection_to(broker_id)
        try:
            response: Any = connection.request(api, request, version=VERSION)
        except BrokerUnreachable as lost:
            if is_repeatable:
                raise
            raise OutcomeUnknown(f"{lost}; it is not known whether the request had its effect") from lost
        if response.error_code == errors.REQUEST_TIMED_OUT and not is_repeatable:
            raise OutcomeUnknown(response.error_message or "the broker does not know what became of the request")
        self.check(response.error_code, response.error_message, about)
        return response

    def check(self, code: int, message: str | None, about: str) -> None:
        """Raise an error unless the code is NONE."""
        if code == errors.NONE:
            return
        text = message or f"{about}: the broker responds with {errors.name(code)}"
        if code in RETRIABLE:
            raise _Retried(text)
        raise self._refusal(errors.name(code), text)

    def retried(self, topic: str, ask: Callable[[], _Answer], about: str) -> _Answer:
        """Call `ask` until it succeeds.  After a failure that may pass, refresh the metadata."""
        back_off = self._cluster.back_off(self._deadline_ms)
        while True:
            try:
                return ask()
            except (BrokerUnreachable, LeaderUnknown, _Retried) as error:
                failure = error
            try:
                back_off.pause(failure)
            except RetriesExhausted as exhausted:
                hint = ""
                if isinstance(failure, BrokerUnreachable):
                    hint = f"; the request needs a Tidemill broker that serves {self._serving}"
                raise RetriesExhausted(f"{about}: {exhausted}{hint}") from failure
            self._cluster.refresh({topic})

    def leader(self, partition: TopicPartition) -> Leader:
        """Return the leader.  Refresh the metadata for a partition that they do not have."""
        try:
            return self._cluster.leader(partition)
        except UnknownTopic:
            self._cluster.refresh({partition.topic})
            return self._cluster.leader(partition)

    def topic_id(self, topic: str, wanted: TopicId | None = None) -> TopicId:
        """Return the topic's id.  Raise TopicRecreated if it is not the wanted one."""
        current = self._cluster.topic_id(topic)
        if current is None:
            raise UnknownTopic(topic, "its broker sends no topic id; use Tidemill brokers")
        if wanted is not None and current != wanted:
            raise TopicRecreated(topic, "it was deleted and created again since its records were received")
        return current
