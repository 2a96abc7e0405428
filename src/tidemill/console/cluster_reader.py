"""Reads from the other brokers, as a Kafka client, the data that only leaders and coordinators have.

A reader serves one page: it connects to the brokers that the page needs, one after the other, and is then closed.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.connection_settings import ConnectionSettings
from tidemill.client.failures import BrokerUnreachable, ClientError
from tidemill.client.offset_lookup import EARLIEST, LATEST
from tidemill.console.cluster_view import BrokerRow, PartitionRow
from tidemill.model import errors
from tidemill.model.broker_id import CONSUMER_REPLICA_ID
from tidemill.model.partition import TopicPartition
from tidemill.wire.messages import list_offsets
from tidemill.wire.schema import Api, Message

# A page requests the offsets of at most this many partitions from other brokers.  For further partitions, it shows only
# what this broker's own replica knows.
PARTITIONS_MAX: Final = 5_000


class Offsets(NamedTuple):
    start: int
    end: int  # exclusive
    is_last_known: bool = False  # from a follower, so the leader may be ahead


class ClusterReader:
    def __init__(self, brokers: Sequence[BrokerRow]) -> None:
        self.brokers = {row.broker_id: row for row in brokers}
        self.settings = ConnectionSettings(
            bootstrap=tuple(row.kafka for row in brokers if row.kafka is not None and row.is_up),
            client_id="tidemill-console",
            connect_timeout_ms=1_000,  # a person is waiting for the page
            request_timeout_ms=2_000,
            api_timeout_ms=3_000,
            fetch_wait_ms_max=100,
        )
        self._connections: dict[int, BrokerConnection] = {}
        self._failures: dict[int, BrokerUnreachable] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections.values():
            connection.close()

    def ask(
        self, broker_id: int, api: Api, request: Message, *, version: int | None = None, newest: int | None = None
    ) -> Any:
        """
        Send a request and return the response.  Raise BrokerUnreachable; no further request is sent to a broker that
        failed once.

        The version is the newest that both sides support, at most `newest`.  For an API that brokers do not advertise,
        the caller passes `version`.
        """
        if broker_id in self._failures:
            raise self._failures[broker_id]
        try:
            connection = self._connection(broker_id)
            if version is None:
                version = connection.version_of(api, newest=newest)
            return connection.request(api, request, version=version)
        except BrokerUnreachable as error:
            self._failures[broker_id] = error
            raise

    def _connection(self, broker_id: int) -> BrokerConnection:
        if broker_id not in self._connections:
            row = self.brokers.get(broker_id)
            if row is None or row.kafka is None or not row.is_up:
                raise BrokerUnreachable(f"broker {broker_id} is down")
            self._connections[broker_id] = BrokerConnection(row.kafka, self.settings)
        return self._connections[broker_id]

    def offsets(
        self, wanted: Mapping[str, Iterable[PartitionRow]]
    ) -> tuple[dict[TopicPartition, Offsets], tuple[str, ...]]:
        """
        Return the offsets of the wanted partitions of each topic, and why offsets are missing or may be outdated.

        The offsets of partitions that this broker leads are read without a request.  If another leader does not
        respond, the offsets are those of this broker's own replica, if it has one.
        """
        found: dict[TopicPartition, Offsets] = {}
        led: dict[int, list[TopicPartition]] = {}
        count = 0
        for topic, rows in wanted.items():
            for row in rows:
                partition = TopicPartition(topic, row.number)
                local = row.local
                if local is not None:
                    found[partition] = Offsets(local.start_offset, local.end_offset, not local.is_leader)
                if row.leader is not None and (local is None or not local.is_leader) and count < PARTITIONS_MAX:
                    led.setdefault(row.leader, []).append(partition)
                    count += 1
        problems = []
        for leader, partitions in led.items():
            try:
                starts = self._list_offsets(leader, partitions, EARLIEST)
                ends = self._list_offsets(leader, partitions, LATEST)
            except ClientError as error:
                problems.append(f"Offsets of partitions led by broker {leader} may be missing or outdated: {error}")
                continue
            found |= {it: Offsets(starts[it], ends[it]) for it in partitions if it in starts and it in ends}
        return found, tuple(problems)

    def _list_offsets(
        self, leader: int, partitions: Iterable[TopicPartition], position: int
    ) -> dict[TopicPartition, int]:
        request = list_offsets.Request.Topic
        by_topic: dict[str, list[list_offsets.Request.Topic.Partition]] = {}
        for topic, number in partitions:
            by_topic.setdefault(topic, []).append(request.Partition(partition_index=number, timestamp=position))
        response: list_offsets.Response = self.ask(
            leader,
            list_offsets.API,
            list_offsets.Request(
                replica_id=CONSUMER_REPLICA_ID,
                topics=[request(name=topic, partitions=asked) for topic, asked in by_topic.items()],
                timeout_ms=self.settings.request_timeout_ms,
            ),
        )
        return {
            TopicPartition(topic.name, answer.partition_index): answer.offset
            for topic in response.topics
            for answer in topic.partitions
            if answer.error_code == errors.NONE
        }
