"""Whole record batches of one partition between two offsets, as they lie on the wire.

While a response is being decoded by the caller, the broker already prepares the next one: one request is always
ahead.  Leaders that move, connections that break and brokers that are slow are followed and waited for; offsets that
are not there are told (OffsetOutOfRange), because whether that is a loss is not ours to say.
"""

from collections.abc import Iterator
from typing import Any, Final, cast

from tidemill.client.back_off import BackOff
from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.cluster_metadata import ClusterMetadata, LeaderUnknown
from tidemill.client.failures import BrokerUnreachable, ClientError, OffsetOutOfRange, TopicRecreated
from tidemill.client.fetched_batches import AbortedTransaction, CorruptBatch, FetchedBatches, walk
from tidemill.client.offset_lookup import EARLIEST, LATEST, LEADER_MOVED, look_up
from tidemill.model import errors
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import NO_TOPIC_ID, TopicId
from tidemill.wire.messages import fetch

_CONSUMER: Final = -1  # the replica id of those who are none
_NO_SESSION_EPOCH: Final = -1  # a full fetch that asks for no session: there is one partition, and one reader of it
_LAST_VERSION_BY_NAME: Final = 12  # from 13 on topics are named by id
_BYTES_PER_OFFSET: Final = 1_024  # a first guess; then what was seen
_BYTES_MIN: Final = 64 << 10  # smaller responses cost more round trips than they save bytes

_TOPIC_ID_PROBLEMS: Final = frozenset(
    {errors.UNKNOWN_TOPIC_ID, errors.INCONSISTENT_TOPIC_ID, errors.FETCH_SESSION_TOPIC_ID_ERROR}
)


class LeaderMoved(ClientError):
    """The broker does not lead the partition, or not yet, or not any more."""


class RawFetcher:
    """Reads with the connections of `cluster`.  Not for several threads; one read at a time."""

    def __init__(self, cluster: ClusterMetadata, *, deadline_ms: int | None = None) -> None:
        """`deadline_ms`: how long a read may go without any new batch."""
        self._cluster = cluster
        self._deadline_ms = deadline_ms

    def batches(
        self, partition: TopicPartition, start_offset: int, end_offset: int, topic_id: TopicId | None = None
    ) -> Iterator[memoryview]:
        """
        Runs of data batches that hold all records of [start_offset, end_offset), in order.

        The first and the last batch may hold records outside.  A view is valid until the next one is asked for: what
        should stay must be copied out.  With `topic_id`, a topic made anew under the name is TopicRecreated.
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
        """Until the end, or until something has to be asked anew."""
        self._check_topic_id(position)
        leader = self._cluster.leader(position.partition)
        connection = self._cluster.connection_to(leader.broker_id)
        request = _Request(self._cluster, connection, position, leader.epoch)
        try:
            request.send(position.offset)
            while position.offset < position.end_offset:
                fetched = self._receive(connection, position)
                if fetched.next_offset == position.offset:
                    # The end was there when the read was planned: a leader that is new may not know it yet.
                    back_off.pause(LeaderMoved(f"nothing came for offset {position.offset} of {position.name}"))
                    request.send(position.offset)
                    continue
                back_off.progressed()
                position.saw(fetched)
                if fetched.next_offset < position.end_offset:
                    request.send(fetched.next_offset)
                # Only now: after a failure the read goes on where the caller has everything before it.
                position.offset = fetched.next_offset
                yield from fetched.runs
        finally:
            if not connection.is_idle:
                connection.close()  # a response is owed that nobody will read

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
            raise ClientError(f"the broker refuses to read {position.name}: {errors.name(error_code)}")
        settings = self._cluster.settings
        records = cast(memoryview | None, answer.records)  # one view, where a message was received
        return walk(
            memoryview(b"") if records is None else records,
            position.offset,
            position.end_offset,
            aborted=_aborted(answer) if settings.is_read_committed else None,
            is_crc_checked=settings.is_crc_checked,
        )

    def _out_of_range(self, connection: BrokerConnection, position: "_Position") -> ClientError:
        """Asked again with fresh eyes: a leader that was just elected may know less than what was committed."""
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
            self._cluster.refresh({topic})  # ours may be the old one
            if self._cluster.topic_id(topic) != position.topic_id:
                raise TopicRecreated(topic, "it was deleted and created again since the read was planned")


class _Position:
    """Where a read is."""

    __slots__ = ("bytes_per_offset", "end_offset", "offset", "partition", "topic_id")

    def __init__(self, partition: TopicPartition, start_offset: int, end_offset: int, topic_id: TopicId | None) -> None:
        self.partition = partition
        self.offset = start_offset  # everything before it has been handed out
        self.end_offset = end_offset
        self.topic_id = topic_id
        self.bytes_per_offset = _BYTES_PER_OFFSET

    @property
    def name(self) -> str:
        return f"{self.partition.topic}-{self.partition.partition}"

    def saw(self, fetched: FetchedBatches) -> None:
        size = sum(map(len, fetched.runs))
        if size:
            self.bytes_per_offset = size // (fetched.next_offset - self.offset) + 1


class _Request:
    """What stays the same from one fetch of a leader to the next."""

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
        # No more than the rest of the read needs, and a tenth on top for what varies.
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
            replica_id=_CONSUMER,
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
