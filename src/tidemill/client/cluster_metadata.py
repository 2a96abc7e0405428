"""The client's view of a cluster's topics and leaders, and its connections to brokers."""

import time
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, TypeVar

from tidemill.client.back_off import BackOff
from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.connection_settings import ConnectionSettings, Endpoint
from tidemill.client.failures import BrokerUnreachable, ClientError, RetriesExhausted, UnknownTopic
from tidemill.model import errors
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import NO_TOPIC_ID, TopicId
from tidemill.wire.messages import metadata

NO_LEADER_EPOCH: Final = -1

_FIRST_CONTACT_SHARE: Final = 0.95  # share of `refresh`'s time limit for connecting; the rest is for raising the error

_Answer = TypeVar("_Answer")

_TRANSIENT: Final = frozenset({errors.LEADER_NOT_AVAILABLE, errors.REQUEST_TIMED_OUT, errors.NETWORK_EXCEPTION})


class LeaderUnknown(ClientError):
    """
    The partition has no leader at the moment, because of an election.  The caller refreshes the metadata and retries.
    """


class Leader(NamedTuple):
    broker_id: int
    epoch: int  # NO_LEADER_EPOCH if the broker does not send it


class _Topic(NamedTuple):
    topic_id: TopicId | None
    is_internal: bool
    error_code: int
    leaders: dict[int, Leader | None]


class ClusterMetadata:
    """The metadata of the last `refresh`, and one connection per broker.  It is not thread-safe.

    Until a broker has responded, a wrong address is the most likely cause of a failure, so `refresh` gives up after
    `socket.connection.setup.timeout.ms` (10 s) in total, which all bootstrap servers share, or after
    `default.api.timeout.ms` if that is shorter.  A broker that is starting is found as soon as it accepts connections,
    but must do so within that time.  After the first response, or if `settings.was_reached` says that another process
    of the job has received one, every call retries for up to `default.api.timeout.ms`.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        """Raise SettingsError if `settings` refer to a variable or a file that is missing in this process."""
        self._given = settings  # each new connection resolves references again
        self.settings = settings.resolved()
        self._was_reached = settings.was_reached
        self._brokers: dict[int, Endpoint] = {}
        self._topics: dict[str, _Topic] = {}
        self._connections: dict[Endpoint, BrokerConnection] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def back_off(self, deadline_ms: int | None = None) -> BackOff:
        """Return a back-off for one call.  It gives up after `deadline_ms`, by default `default.api.timeout.ms`."""
        return BackOff(
            first_ms=self.settings.retry_backoff_ms,
            longest_ms=self.settings.retry_backoff_ms_max,
            deadline_ms=self.settings.api_timeout_ms if deadline_ms is None else deadline_ms,
        )

    def refresh(self, topics: Collection[str] | None, *, deadline_ms: int | None = None) -> None:
        """
        Request the metadata of these topics, or of all topics (None), from any broker.

        Raise RetriesExhausted if no broker responds before the deadline, or if a topic is not ready or has no leader by
        then, and SettingsError if a broker refuses the settings.  `deadline_ms` is by default `default.api.timeout.ms`.
        """
        response = None if self._was_reached else self._first_response(topics)
        back_off = self.back_off(deadline_ms)
        while True:
            try:
                response = response or self.ask_any(lambda connection: self._ask(connection, topics))
            except BrokerUnreachable as error:
                back_off.pause(error)
                continue
            self._replace(response)
            response = None
            pending = [name for name, topic in self._topics.items() if topic.error_code in _TRANSIENT]
            if not pending:
                return
            back_off.pause(LeaderUnknown(f"topic {pending[0]!r} is being created or has no leader yet"))

    def topics(self) -> tuple[str, ...]:
        """Return the sorted names of all topics except internal ones.  Call `refresh(None)` first."""
        return tuple(
            sorted(n for n, topic in self._topics.items() if topic.error_code == errors.NONE and not topic.is_internal)
        )

    def partitions(self, topic: str) -> tuple[int, ...]:
        """Return the numbers of the topic's partitions.  Raise UnknownTopic."""
        return tuple(sorted(self._existing(topic).leaders))

    def topic_id(self, topic: str) -> TopicId | None:
        """
        Return the topic id; None if the topic does not exist or the broker is too old for topic ids (before Kafka 2.8).
        """
        known = self._topics.get(topic)
        return None if known is None else known.topic_id

    def leader(self, partition: TopicPartition) -> Leader:
        """Return the partition's leader.

        Raise LeaderUnknown during an election, and UnknownTopic if the topic or the partition does not exist.
        """
        leaders = self._existing(partition.topic).leaders
        if partition.partition not in leaders:
            raise UnknownTopic(partition.topic, f"partition {partition.partition} does not exist")
        leader = leaders[partition.partition]
        if leader is None or leader.broker_id not in self._brokers:
            raise LeaderUnknown(f"{partition.topic}-{partition.partition} has no leader at the moment")
        return leader

    def broker_ids(self) -> tuple[int, ...]:
        """Return the ids of the live brokers, in ascending order.  Call `refresh` first."""
        return tuple(sorted(self._brokers))

    def connection_to(self, broker_id: int) -> BrokerConnection:
        """Return an idle connection to this broker; it is kept for later calls.  Raise BrokerUnreachable."""
        return self._connection(self._brokers[broker_id])

    def connection_at(self, endpoint: Endpoint) -> BrokerConnection:
        """Return an idle connection to the broker at `endpoint`, such as a coordinator returned by another broker.

        The connection is kept for later calls.  Raise BrokerUnreachable.
        """
        return self._connection(endpoint)

    def open_connection(self, broker_id: int) -> BrokerConnection:
        """Return a new connection to this broker, which the caller closes.  Raise BrokerUnreachable."""
        return BrokerConnection(self._brokers[broker_id], self._given)

    def ask_any(self, ask: Callable[[BrokerConnection], _Answer], ends_at: float | None = None) -> _Answer:
        """
        Call `ask` with a connection to one broker after another, and return the answer of the first broker that
        responds.

        Connected brokers are tried first, then known brokers, then bootstrap servers.  The time left
        until `ends_at` is divided equally among the endpoints that are not tried yet, and limits how long opening a
        connection may take.  Raise BrokerUnreachable if none responds.
        """
        endpoints = dict.fromkeys([*self._connections, *self._brokers.values(), *self.settings.bootstrap])
        failures = []
        for index, endpoint in enumerate(endpoints):
            within_ms = None
            if ends_at is not None:
                within_ms = max(int((ends_at - time.monotonic()) * 1_000) // (len(endpoints) - index), 1)
            try:
                return ask(self._connection(endpoint, within_ms))
            except BrokerUnreachable as error:
                failures.append(str(error))
        raise BrokerUnreachable("; ".join(failures))

    def _existing(self, topic: str) -> _Topic:
        known = self._topics.get(topic)
        if known is None or known.error_code == errors.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopic(topic, "it does not exist in the cluster; check its name, or create it")
        if known.error_code != errors.NONE:
            raise ClientError(f"topic {topic!r}: the broker responds with {errors.name(known.error_code)}")
        return known

    def _first_response(self, topics: Collection[str] | None) -> metadata.Response:
        """Return the metadata of the first broker that responds at all.  Raise RetriesExhausted."""
        settings = self.settings
        limit_ms = min(settings.connect_timeout_ms, settings.api_timeout_ms)
        back_off = self.back_off(int(limit_ms * _FIRST_CONTACT_SHARE))
        ends_at = time.monotonic() + limit_ms * _FIRST_CONTACT_SHARE / 1_000
        while True:
            try:
                response = self.ask_any(lambda connection: self._ask(connection, topics), ends_at)
            except BrokerUnreachable as error:
                try:
                    back_off.pause(error)
                except RetriesExhausted:
                    servers = ",".join(f"{host}:{port}" for host, port in settings.bootstrap)
                    raise RetriesExhausted(
                        f"no broker of bootstrap.servers={servers} responded within {limit_ms} ms: {error}; check the "
                        "address, and that the broker is running"
                    ) from error
                continue
            self._was_reached = True
            return response

    def _connection(self, endpoint: Endpoint, open_within_ms: int | None = None) -> BrokerConnection:
        kept = self._connections.get(endpoint)
        if kept is not None:
            if kept.is_open and kept.is_idle:
                return kept
            kept.close()
            del self._connections[endpoint]
        connection = BrokerConnection(endpoint, self._given, open_within_ms=open_within_ms)
        self._connections[endpoint] = connection
        return connection

    def _ask(self, connection: BrokerConnection, topics: Collection[str] | None) -> metadata.Response:
        version = connection.version_of(metadata.API)
        wanted = None if topics is None else [metadata.Request.Topic(name=name) for name in topics]
        request = metadata.Request(topics=wanted, allow_auto_topic_creation=False)
        response: metadata.Response = connection.request(metadata.API, request, version=version)
        return response

    def _replace(self, response: metadata.Response) -> None:
        self._brokers = {broker.node_id: Endpoint(broker.host, broker.port) for broker in response.brokers}
        topics = {}
        for topic in response.topics:
            if topic.name is None:
                continue
            leaders = {}
            for partition in topic.partitions:
                epoch = partition.leader_epoch
                leaders[partition.partition_index] = (
                    None if partition.leader_id < 0 else Leader(partition.leader_id, epoch)
                )
            topic_id = None if topic.topic_id == NO_TOPIC_ID else TopicId(bytes(topic.topic_id))
            topics[topic.name] = _Topic(topic_id, topic.is_internal, topic.error_code, leaders)
        self._topics = topics
