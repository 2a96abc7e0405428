"""Fetches the record batches of one partition between two offsets, undecoded.

While the caller decodes a response, the next request is already in flight.  If the leader changes, the fetcher reads
from the new leader; after failed connections and timeouts it retries.  It raises OffsetOutOfRange for missing offsets,
because the caller decides whether they are data loss.
"""

from collections.abc import Iterator
from typing import Any, Final, cast

from tidemill.batches.control import AbortedTransaction
from tidemill.client.back_off import BackOff
from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.cluster_metadata import ClusterMetadata, Leader, LeaderUnknown
from tidemill.client.failures import BrokerUnreachable, ClientError, OffsetOutOfRange, TopicRecreated, UnknownTopic
from tidemill.client.fetched_batches import CorruptBatch, FetchedBatches, data_batches
from tidemill.client.offset_lookup import EARLIEST, LATEST, LEADER_MOVED, look_up
from tidemill.model import errors
from tidemill.model.broker_id import CONSUMER_REPLICA_ID
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import NO_TOPIC_ID, TopicId
from tidemill.wire.messages import fetch

_NO_SESSION_EPOCH: Final = -1  # a full fetch without a session, because a read concerns a single partition
_LAST_VERSION_BY_NAME: Final = 12  # later versions identify topics by id
_BYTES_PER_OFFSET: Final = 1_024  # an initial estimate, which observed sizes replace
_BYTES_MIN: Final = 64 << 10  # smaller requests would need more round trips, which would cost more than the bytes saved

_TOPIC_ID_PROBLEMS: Final = frozenset(
    {errors.UNKNOWN_TOPIC_ID, errors.INCONSISTENT_TOPIC_ID, errors.FETCH_SESSION_TOPIC_ID_ERROR}
)


class LeaderMoved(ClientError):
    """
    The broker does not lead the partition, or its view of it is stale.  The caller refreshes its metadata and retries.
    """


class RawFetcher:
    """Reads partitions over the connections of `cluster`, one read at a time.  It is not thread-safe."""

    def __init__(self, cluster: ClusterMetadata, *, deadline_ms: int | None = None) -> None:
        """`deadline_ms` limits how long a read may continue without a new batch."""
        self._cluster = cluster
        self._deadline_ms = deadline_ms

    def batches(
        self, partition: TopicPartition, start_offset: int, end_offset: int, topic_id: TopicId | None = None
    ) -> Iterator[memoryview]:
        """
        Yield views, each of a run of consecutive data batches, that contain all records of [start_offset, end_offset),
        in order.

        The first and the last batch may contain records outside that range.  Each view is valid until the next one is
        requested.  If `topic_id` is given, the topic must have that id.

        Raise TopicRecreated, UnknownTopic, OffsetOutOfRange, RetriesExhausted, or ClientError if the broker refuses the
        request.
        """
        back_off = self._cluster.back_off(self._deadline_ms)
        position = _Position(partition, start_offset, end_offset, topic_id)
        while position.offset < end_offset:
            try:
                yield from self._batches_of_leader(position, back_off)
            except (BrokerUnreachable, LeaderUnknown, LeaderMoved, CorruptBatch) as error:
                back_off.pause(error)
                self._cluster.refresh({partition.topic})

    def _batches_of_leader(self, position: "_Position", back_off: BackOff) -> Iterator[memoryview]:
        """Yield batches from the current leader up to the end offset, or raise if the metadata must be refreshed."""
        self._check_topic_id(position)
        leader = self._leader(position.partition)
        connection = self._cluster.connection_to(leader.broker_id)
        request = _Request(self._cluster, connection, position, leader.epoch)
        try:
            request.send(position.offset)
            while position.offset < position.end_offset:
                fetched = self._receive(connection, position)
                if fetched.next_offset == position.offset:
                    # The end offset was committed when the read was planned, but a new leader may not know it yet.
                    back_off.pause(LeaderMoved(f"no records at offset {position.offset} of {position.name} yet"))
                    request.send(position.offset)
                    continue
                back_off.reset()
                position.update_size(fetched)
                if fetched.next_offset < position.end_offset:
                    request.send(fetched.next_offset)
                # Advance only after the next request is sent: if sending fails, these batches are not yielded and must
                # be fetched again.
                position.offset = fetched.next_offset
                yield from fetched.runs
        finally:
            if not connection.is_idle:
                connection.close()  # The outstanding response would be mistaken for that of the next request.

    def _leader(self, partition: TopicPartition) -> Leader:
        """
        Return the leader.

        Refresh the metadata if needed, because the partition may be newer than the cached metadata.
        """
        try:
            return self._cluster.leader(partition)
        except UnknownTopic:
            self._cluster.refresh({partition.topic})
            return self._cluster.leader(partition)

    def _receive(self, connection: BrokerConnection, position: "_Position") -> FetchedBatches:
        response: fetch.Response = connection.receive()
        answers = [answer for topic in response.responses for answer in topic.partitions]
        answer = answers[0] if answers else None
        error_code = response.error_code or (answer.error_code if answer is not None else errors.NONE)
        if error_code in _TOPIC_ID_PROBLEMS:
            self._cluster.refresh({position.partition.topic})
            self._check_topic_id(position)
        if error_code in LEADER_MOVED or error_code in _TOPIC_ID_PROBLEMS:
            raise LeaderMoved(f"{position.name}: {errors.name(error_code)}")
        if error_code == errors.OFFSET_OUT_OF_RANGE:
            raise self._out_of_range(connection, position)
        if error_code != errors.NONE or answer is None:
            raise ClientError(f"the broker refuses to fetch from {position.name}: {errors.name(error_code)}")
        settings = self._cluster.settings
        records = cast(memoryview | None, answer.records)  # a decoder returns records as a single view
        return data_batches(
            memoryview(b"") if records is None else records,
            position.offset,
            position.end_offset,
            aborted=_aborted(answer) if settings.is_read_committed else None,
            is_crc_checked=settings.is_crc_checked,
        )

    def _out_of_range(self, connection: BrokerConnection, position: "_Position") -> ClientError:
        """
        Check after a metadata refresh whether the offset is still out of range, and return the error to raise.

        The offset may be in range after all, because a new leader does not know all committed offsets at first.
        """
        partition = position.partition
        self._cluster.refresh({partition.topic})
        log_start = look_up(self._cluster, {partition: EARLIEST})[partition]
        end = look_up(self._cluster, {partition: LATEST})[partition]
        if log_start <= position.offset < end:
            return LeaderMoved(f"{position.name}: offset {position.offset} is back in range")
        return OffsetOutOfRange(partition, position.offset, log_start, end)

    def _check_topic_id(self, position: "_Position") -> None:
        topic = position.partition.topic
        if self._cluster.topic_id(topic) is None:
            self._cluster.refresh({topic})
        now = self._cluster.topic_id(topic)
        if position.topic_id is not None and now is not None and now != position.topic_id:
            self._cluster.refresh({topic})  # the cached id may be stale
            if self._cluster.topic_id(topic) != position.topic_id:
                raise TopicRecreated(topic, "it was deleted and created again since the read was planned")


class _Position:
    """The progress of a read."""

    __slots__ = ("bytes_per_offset", "end_offset", "offset", "partition", "topic_id")

    def __init__(self, partition: TopicPartition, start_offset: int, end_offset: int, topic_id: TopicId | None) -> None:
        self.partition = partition
        self.offset = start_offset  # all records before this offset have been yielded
        self.end_offset = end_offset
        self.topic_id = topic_id
        self.bytes_per_offset = _BYTES_PER_OFFSET

    @property
    def name(self) -> str:
        return f"{self.partition.topic}-{self.partition.partition}"

    def update_size(self, fetched: FetchedBatches) -> None:
        size = sum(map(len, fetched.runs))
        if size:
            self.bytes_per_offset = size // (fetched.next_offset - self.offset) + 1


class _Request:
    """Sends the fetch requests of a read to one leader."""

    __slots__ = ("_cluster", "_connection", "_leader_epoch", "_position", "_topic_id", "_version")

    def __init__(
        self, cluster: ClusterMetadata, connection: BrokerConnection, position: _Position, leader_epoch: int
    ) -> None:
        topic_id = cluster.topic_id(position.partition.topic)
        self._cluster = cluster
        self._connection = connection
        self._position = position
        self._leader_epoch = leader_epoch
        self._topic_id = NO_TOPIC_ID if topic_id is None else topic_id
        self._version = connection.version_of(fetch.API, newest=_LAST_VERSION_BY_NAME if topic_id is None else None)

    def send(self, offset: int) -> None:
        settings, position = self._cluster.settings, self._position
        # Request about as many bytes as remain to be read, plus a tenth, because record sizes vary.
        wanted = (position.end_offset - offset) * position.bytes_per_offset * 11 // 10
        bytes_max = min(max(wanted, _BYTES_MIN), settings.fetch_bytes_max)
        partition = fetch.Request.Topic.Partition(
            partition=position.partition.partition,
            current_leader_epoch=self._leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=bytes_max,
        )
        topic = fetch.Request.Topic(topic=position.partition.topic, topic_id=self._topic_id, partitions=[partition])
        request = fetch.Request(
            replica_id=CONSUMER_REPLICA_ID,
            max_wait_ms=settings.fetch_wait_ms_max,
            min_bytes=1,
            max_bytes=bytes_max,
            isolation_level=int(settings.is_read_committed),
            session_id=0,
            session_epoch=_NO_SESSION_EPOCH,
            topics=[topic],
        )
        self._connection.send(fetch.API, request, version=self._version)


def _aborted(answer: Any) -> list[AbortedTransaction]:
    return [AbortedTransaction(one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()]
