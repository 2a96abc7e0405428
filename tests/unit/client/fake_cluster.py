"""Fake Kafka brokers in this process, with real sockets; the test sets their data and their failures."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from tests.unit.client.fake_sasl import SASL_APIS, FakeSasl, FakeSaslSession
from tidemill.batches import batch as batch_header
from tidemill.batches.builder import build_batch
from tidemill.client import connection_settings
from tidemill.client.connection_settings import ConnectionSettings
from tidemill.model import errors
from tidemill.model.topic import NO_TOPIC_ID, TopicId
from tidemill.wire.messages import (
    api_versions,
    describe_configs,
    describe_groups,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)
from tidemill.wire.primitives import ProtocolError
from tidemill.wire.schema import Api, Message
from tidemill.wire.server_connection import ServerConnection

APIS = {
    api.key: api
    for api in (
        api_versions.API,
        metadata.API,
        list_offsets.API,
        fetch.API,
        find_coordinator.API,
        offset_fetch.API,
        offset_commit.API,
        describe_groups.API,
        produce.API,
        init_producer_id.API,
        describe_configs.API,
    )
}
REQUEST_BYTES_MAX = 100 << 20  # the default of Kafka's socket.request.max.bytes
_BATCHES_REMEMBERED = 5  # a partition keeps the last five batches of a producer, as in Kafka
TOPIC_ID = TopicId(bytes(range(16)))


def at_versions(**last: int) -> dict[int, Api]:
    """Return the APIs of an older broker, in which no version is higher than the given ones."""
    return {
        key: Api(
            key=key,
            versions=range(api.versions.start, min(api.versions.stop, last.get(api.name, 99) + 1)),
            flexible_from=api.flexible_from,
            request=api.request,
            response=api.response,
        )
        for key, api in APIS.items()
    }


@dataclass
class ProducerState:
    """The state that a partition keeps of an idempotent producer: its epoch and its last batches."""

    epoch: int
    next_sequence: int = 0
    base_offsets: dict[int, int] = field(default_factory=dict)  # base offsets of the kept batches, by base sequence


@dataclass
class Partition:
    leader: int | None = 1
    epoch: int = 0
    log_start_offset: int = 0
    batches: list[bytes] = field(default_factory=list)
    # Producer id and first offset of each aborted transaction.
    aborted: list[tuple[int, int]] = field(default_factory=list)
    producers: dict[int, "ProducerState"] = field(default_factory=dict)

    @property
    def end_offset(self) -> int:
        return batch_header.read_header(self.batches[-1]).end_offset if self.batches else self.log_start_offset

    def append(self, batch: bytes | bytearray) -> None:
        whole = bytearray(batch)
        batch_header.stamp(whole, self.end_offset, self.epoch)
        self.batches.append(bytes(whole))

    def produce(self, batch: bytes) -> tuple[int, int]:
        """Append a producer's batch if its sequence number is the expected one.  Return the error code and the base
        offset.
        """
        header = batch_header.read_header(batch)
        if not batch_header.crc_matches(batch):
            return errors.CORRUPT_MESSAGE, -1
        if header.base_offset:
            return errors.INVALID_RECORD, -1
        base_offset = self.end_offset
        if header.producer_id >= 0:
            known = self.producers.get(header.producer_id)
            if known is None or header.producer_epoch > known.epoch:
                if known is not None and header.base_sequence:
                    return errors.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
                known = ProducerState(header.producer_epoch, header.base_sequence)
            if header.producer_epoch < known.epoch:
                return errors.INVALID_PRODUCER_EPOCH, -1
            if header.base_sequence in known.base_offsets:
                return errors.NONE, known.base_offsets[header.base_sequence]
            if header.base_sequence != known.next_sequence:
                return errors.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self.producers[header.producer_id] = known
            known.next_sequence = batch_header.add_sequence(header.base_sequence, header.record_count)
            known.base_offsets[header.base_sequence] = base_offset
            while len(known.base_offsets) > _BATCHES_REMEMBERED:
                known.base_offsets.pop(next(iter(known.base_offsets)))
        self.append(batch)
        return errors.NONE, base_offset

    def append_records(self, values: list[bytes], *, timestamp: int = 1_000) -> None:
        self.append(build_batch([(None, value, (), timestamp) for value in values]))


@dataclass
class Topic:
    topic_id: TopicId = TOPIC_ID
    partitions: dict[int, Partition] = field(default_factory=lambda: {0: Partition()})
    is_internal: bool = False
    kind: str | None = "log"  # None: the broker has no kinds of topics


@dataclass
class Group:
    coordinator: int = 1
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    member_count: int = 0


class Disconnect(Exception):
    """Raised by a test's hook to make the broker close the connection instead of responding."""


Hook = Callable[[int, str, Message], Message | None]
"""(broker id, API name, request) → a response made by the test, or None for the usual one."""


class FakeCluster:
    """Runs fake brokers with the ids 1 to `broker_count`, which all have the same topics."""

    def __init__(
        self,
        *,
        broker_count: int = 1,
        apis: dict[int, Api] | None = None,
        tls: ssl.SSLContext | None = None,
        sasl: FakeSasl | None = None,
    ) -> None:
        self.topics: dict[str, Topic] = {"t": Topic()}
        self.groups: dict[str, Group] = {}
        self.requests: list[tuple[int, str, int, Message]] = []  # broker id, API name, version, request
        self.message_bytes_max: int | None = 1_048_588  # max.message.bytes; None: DescribeConfigs is not authorized
        self._producer_count = 0
        self.unlisted: dict[int, Api] = {}  # further APIs, whose requests a test's hook answers
        self.hook: Hook = lambda broker_id, name, request: None
        self._apis = APIS if apis is None else apis
        if sasl is not None:
            self._apis = {**self._apis, **SASL_APIS}
        self._tls = tls
        self._sasl = sasl
        self._listeners = {
            broker_id: socket.create_server(("127.0.0.1", 0)) for broker_id in range(1, broker_count + 1)
        }
        self._sockets: list[socket.socket] = []
        self._threads = [
            threading.Thread(target=self._listen, args=(broker_id, listener), daemon=True)
            for broker_id, listener in self._listeners.items()
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in [*self._listeners.values(), *self._sockets]:
            with contextlib.suppress(OSError):  # the other end may already have closed the connection
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(5)

    @property
    def partition(self) -> Partition:
        """The fake partition 0 of the topic `t`, which most tests use."""
        return self.topics["t"].partitions[0]

    def settings(self, **keys: str) -> ConnectionSettings:
        """Return settings with short back-offs and deadlines, so that tests of retries are fast."""
        fast = {"retry.backoff.ms": "1", "retry.backoff.max.ms": "5", "default.api.timeout.ms": "2000"}
        servers = ",".join(f"127.0.0.1:{listener.getsockname()[1]}" for listener in self._listeners.values())
        named = {key.replace("_", "."): value for key, value in keys.items()}
        return connection_settings.from_keys({"bootstrap.servers": servers, **fast, **named})

    def count(self, name: str) -> int:
        return sum(one[1] == name for one in self.requests)

    # Methods of the fake brokers.

    def _listen(self, broker_id: int, listener: socket.socket) -> None:
        while True:
            try:
                connected, _ = listener.accept()
            except OSError:
                return
            self._sockets.append(connected)
            thread = threading.Thread(target=self._serve, args=(broker_id, connected), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, broker_id: int, connected: socket.socket) -> None:
        if self._tls is not None:
            try:
                connected = self._tls.wrap_socket(connected, server_side=True)
            except OSError:  # in some tests the client refuses the certificate
                return
            self._sockets.append(connected)
        connection = ServerConnection(self._apis, unlisted=self.unlisted)
        session = None if self._sasl is None else self._sasl.session()
        with connected, connected.makefile("rb") as incoming:
            try:
                while len(start := incoming.read(4)) == 4:
                    size = int.from_bytes(start, "big")
                    if size > REQUEST_BYTES_MAX:  # not a Kafka request, but for example the bytes of a TLS handshake
                        return
                    frame = memoryview(bytearray(incoming.read(size)))
                    envelope = connection.receive(frame)
                    answer = envelope.answer
                    if answer is None:
                        self.requests.append((broker_id, envelope.api.name, envelope.version, envelope.request))
                        response = self.hook(broker_id, envelope.api.name, envelope.request)
                        answer = envelope.encode(
                            response or self.answer(broker_id, envelope.version, envelope.request, session)
                        )
                    connected.sendall(b"".join(connection.respond(envelope, answer)))
            except (OSError, Disconnect, ProtocolError):
                return

    def answer(self, broker_id: int, version: int, request: Message, session: FakeSaslSession | None = None) -> Message:
        """
        Return the response of a broker without faults.  A test's hook calls this to execute a request and then report a
        failure.
        """
        if session is not None and not isinstance(request, api_versions.Request):
            answer = session.answer(request)
            if answer is not None:
                return answer
            if not session.is_logged_in:
                raise Disconnect  # Kafka, too, closes a connection without a login
        if isinstance(request, api_versions.Request):
            spoken = [
                api_versions.Response.ApiKey(
                    api_key=api.key, min_version=api.versions.start, max_version=api.versions.stop - 1
                )
                for api in self._apis.values()
            ]
            return api_versions.Response(error_code=errors.NONE, api_keys=spoken)
        if isinstance(request, metadata.Request):
            return self._metadata(request)
        if isinstance(request, list_offsets.Request):
            return self._offsets(broker_id, request)
        if isinstance(request, produce.Request):
            return self._produce(broker_id, request)
        if isinstance(request, init_producer_id.Request):
            self._producer_count += 1
            return init_producer_id.Response(
                error_code=errors.NONE, producer_id=1_000 * self._producer_count, producer_epoch=0
            )
        if isinstance(request, describe_configs.Request):
            return self._configs(request)
        if isinstance(request, find_coordinator.Request):
            coordinator = self.groups.setdefault(request.key, Group()).coordinator
            port = self._listeners[coordinator].getsockname()[1]
            return find_coordinator.Response(node_id=coordinator, host="127.0.0.1", port=port)
        if isinstance(request, offset_fetch.Request):
            return self._committed(broker_id, request)
        if isinstance(request, offset_commit.Request):
            return self._commit(broker_id, request)
        if isinstance(request, describe_groups.Request):
            return self._describe(request)
        assert isinstance(request, fetch.Request)
        return self._records(broker_id, version, request)

    def _committed(self, broker_id: int, request: offset_fetch.Request) -> offset_fetch.Response:
        group = self.groups[request.group_id]
        answer = offset_fetch.Response.Topic
        topics = [
            answer(
                name=topic.name,
                partitions=[
                    answer.Partition(
                        partition_index=number,
                        committed_offset=group.offsets.get((topic.name, number), -1),
                        error_code=errors.NONE,
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
        moved = errors.NONE if group.coordinator == broker_id else errors.NOT_COORDINATOR
        return offset_fetch.Response(topics=topics, error_code=moved)

    def _commit(self, broker_id: int, request: offset_commit.Request) -> offset_commit.Response:
        group = self.groups[request.group_id]
        error_code = errors.NONE if group.coordinator == broker_id else errors.NOT_COORDINATOR
        if group.member_count:
            error_code = errors.UNKNOWN_MEMBER_ID
        answer = offset_commit.Response.Topic
        topics = []
        for topic in request.topics:
            for one in topic.partitions if error_code == errors.NONE else ():
                group.offsets[topic.name, one.partition_index] = one.committed_offset
            answers = [
                answer.Partition(partition_index=one.partition_index, error_code=error_code) for one in topic.partitions
            ]
            topics.append(answer(name=topic.name, partitions=answers))
        return offset_commit.Response(topics=topics)

    def _describe(self, request: describe_groups.Request) -> describe_groups.Response:
        described = describe_groups.Response.Group
        return describe_groups.Response(
            groups=[
                described(
                    error_code=errors.NONE,
                    group_id=name,
                    group_state="Stable" if self.groups[name].member_count else "Empty",
                    protocol_type="consumer",
                    protocol_data="",
                    members=[
                        described.Member(
                            member_id=str(number),
                            client_id="",
                            client_host="",
                            member_metadata=b"",
                            member_assignment=b"",
                        )
                        for number in range(self.groups[name].member_count)
                    ],
                )
                for name in request.groups
            ]
        )

    def _metadata(self, request: metadata.Request) -> metadata.Response:
        names = list(self.topics) if request.topics is None else [str(topic.name) for topic in request.topics]
        return metadata.Response(
            brokers=[
                metadata.Response.Broker(node_id=broker_id, host="127.0.0.1", port=listener.getsockname()[1])
                for broker_id, listener in self._listeners.items()
            ],
            controller_id=min(self._listeners),
            topics=[self._topic_metadata(name) for name in names],
        )

    def _topic_metadata(self, name: str) -> metadata.Response.Topic:
        known = self.topics.get(name)
        if known is None:
            return metadata.Response.Topic(error_code=errors.UNKNOWN_TOPIC_OR_PARTITION, name=name, partitions=[])
        return metadata.Response.Topic(
            error_code=errors.NONE,
            name=name,
            topic_id=known.topic_id,
            is_internal=known.is_internal,
            partitions=[
                metadata.Response.Topic.Partition(
                    error_code=errors.NONE if one.leader else errors.LEADER_NOT_AVAILABLE,
                    partition_index=number,
                    leader_id=one.leader or -1,
                    leader_epoch=one.epoch,
                    replica_nodes=[],
                    isr_nodes=[],
                )
                for number, one in known.partitions.items()
            ],
        )

    def _offsets(self, broker_id: int, request: list_offsets.Request) -> list_offsets.Response:
        answered = []
        for topic in request.topics:
            answers = []
            for asked in topic.partitions:
                one = self.topics[topic.name].partitions[asked.partition_index]
                error_code = errors.NONE if one.leader == broker_id else errors.NOT_LEADER_OR_FOLLOWER
                offset = {-1: one.end_offset, -2: one.log_start_offset}.get(asked.timestamp)
                if offset is None:
                    later = [
                        header.base_offset
                        for header in map(batch_header.read_header, one.batches)
                        if header.base_timestamp >= asked.timestamp
                    ]
                    offset = later[0] if later else -1
                answers.append(
                    list_offsets.Response.Topic.Partition(
                        partition_index=asked.partition_index, error_code=error_code, offset=offset
                    )
                )
            answered.append(list_offsets.Response.Topic(name=topic.name, partitions=answers))
        return list_offsets.Response(topics=answered)

    def _produce(self, broker_id: int, request: produce.Request) -> produce.Response:
        answered = []
        for topic in request.topic_data:
            answers = []
            for sent in topic.partition_data:
                known = self.topics.get(topic.name)
                partition = None if known is None else known.partitions.get(sent.index)
                if partition is None:
                    error_code, base_offset = errors.UNKNOWN_TOPIC_OR_PARTITION, -1
                elif partition.leader != broker_id:
                    error_code, base_offset = errors.NOT_LEADER_OR_FOLLOWER, -1
                elif len(sent.records) > (self.message_bytes_max or 1_048_588):
                    error_code, base_offset = errors.MESSAGE_TOO_LARGE, -1
                else:
                    error_code, base_offset = partition.produce(bytes(sent.records))
                answers.append(
                    produce.Response.Topic.Partition(index=sent.index, error_code=error_code, base_offset=base_offset)
                )
            answered.append(produce.Response.Topic(name=topic.name, partition_responses=answers))
        return produce.Response(responses=answered)

    def _configs(self, request: describe_configs.Request) -> describe_configs.Response:
        is_hidden = self.message_bytes_max is None

        def values(topic: str) -> dict[str, str]:
            kind = self.topics[topic].kind if topic in self.topics else None
            found = {"max.message.bytes": str(self.message_bytes_max), "tidemill.kind": kind}
            return {key: value for key, value in found.items() if value is not None}

        return describe_configs.Response(
            results=[
                describe_configs.Response.Resource(
                    error_code=errors.TOPIC_AUTHORIZATION_FAILED if is_hidden else errors.NONE,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=[
                        describe_configs.Response.Resource.Config(
                            name=key, value=value, read_only=False, is_sensitive=False, synonyms=[]
                        )
                        for key, value in values(resource.resource_name).items()
                        if not is_hidden and (resource.configuration_keys is None or key in resource.configuration_keys)
                    ],
                )
                for resource in request.resources
            ]
        )

    def _records(self, broker_id: int, version: int, request: fetch.Request) -> fetch.Response:
        (topic,) = request.topics
        (asked,) = topic.partitions
        by_id = {known.topic_id: known for known in self.topics.values()}
        known = by_id.get(topic.topic_id) if version >= 13 else self.topics.get(topic.topic)
        records, error_code = b"", errors.NONE
        aborted: list[tuple[int, int]] = []
        if known is None:
            error_code = errors.UNKNOWN_TOPIC_ID if version >= 13 else errors.UNKNOWN_TOPIC_OR_PARTITION
        else:
            one = known.partitions[asked.partition]
            if one.leader != broker_id:
                error_code = errors.NOT_LEADER_OR_FOLLOWER
            elif not one.log_start_offset <= asked.fetch_offset <= one.end_offset:
                error_code = errors.OFFSET_OUT_OF_RANGE
            else:
                wanted = [b for b in one.batches if batch_header.read_header(b).end_offset > asked.fetch_offset]
                records = b"".join(wanted)[: max(asked.partition_max_bytes, len(wanted[0]) if wanted else 0)]
                aborted = one.aborted
        answer = fetch.Response.Topic.Partition(
            partition_index=asked.partition,
            error_code=error_code,
            high_watermark=0,
            aborted_transactions=[
                fetch.Response.Topic.Partition.AbortedTransaction(producer_id=producer, first_offset=first)
                for producer, first in aborted
            ]
            if request.isolation_level
            else None,
            records=records,
        )
        return fetch.Response(
            responses=[
                fetch.Response.Topic(
                    topic=topic.topic if version < 13 else "",
                    topic_id=topic.topic_id if version >= 13 else NO_TOPIC_ID,
                    partitions=[answer],
                )
            ]
        )
