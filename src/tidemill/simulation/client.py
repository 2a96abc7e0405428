"""A Kafka client on virtual time: connections, metadata, an idempotent producer and a reader, over the wire's bytes.

Written as coroutines on a `SimulatedLoop`; it sees brokers only through the network.  It follows the protocol, not a
library: batches of one partition are sent up to five at a time, and after anything uncertain again, in order and with
the same sequence numbers, until they are acknowledged (KIP-98).  What must hold of the answers `history.py` says.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple

from tidemill.batches.batch import spans
from tidemill.batches.builder import build_batch
from tidemill.batches.records import read_records
from tidemill.model import errors
from tidemill.simulation.event_loop import SimulatedLoop
from tidemill.simulation.history import Broken, History, Read, name_of
from tidemill.simulation.machine import BEGIN_MS
from tidemill.simulation.network import Network, Socket
from tidemill.wire.api import ALL
from tidemill.wire.client_connection import ClientConnection
from tidemill.wire.messages import (
    create_topics,
    fetch,
    init_producer_id,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from tidemill.wire.schema import Message

REQUEST_S: Final = 8.0  # after which a client gives a connection up
BACK_OFF_S: Final = 0.1
BY_NAME: Final = 12  # the last version of Produce and Fetch that names topics
Address = tuple[str, int]

APIS: Final = {
    message.Request: ALL[message.API.key]
    for message in (create_topics, fetch, init_producer_id, metadata, offset_for_leader_epoch, produce)
}


class Unreachable(Exception):
    """A connection that could not be made, was lost, or gave no answer in time: what was asked may have been done."""


class Leader(NamedTuple):
    broker_id: int
    epoch: int
    address: Address


class Connection:
    """Requests under way on one connection, answered in order."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._wire = ClientConnection("simulated")
        self._socket: Socket | None = None
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._bytes = bytearray()

    @property
    def is_open(self) -> bool:
        return self._socket is not None and self._socket.is_open

    async def open(self, network: Network, host: str, address: Address) -> None:
        dialled: asyncio.Future[Socket] = self._loop.create_future()

        def connected(socket: Socket) -> None:
            socket.received, socket.lost = self._received, self._lost
            self._socket = socket
            dialled.set_result(socket)

        network.dial(self._loop, host, address, connected, lambda why: dialled.set_exception(Unreachable(why)))
        await dialled

    def send(self, request: Message, version: int | None = None) -> asyncio.Future[Any]:
        """The future answer; Unreachable when the connection ends before it comes."""
        answer = self._loop.create_future()
        if self._socket is None or not self._socket.is_open:
            answer.set_exception(Unreachable("the connection is closed"))
            answer.exception()  # some wait for none but the first
            return answer
        correlation_id, parts = self._wire.send(APIS[type(request)], request, version=version)
        self._answers[correlation_id] = answer
        self._socket.send(b"".join(parts))
        return answer

    async def ask(self, request: Message, version: int | None = None) -> Any:
        return await self.outcome(self.send(request, version))

    async def outcome(self, answer: "asyncio.Future[Any]") -> Any:
        """The answer, while the client has patience; after that the connection is of no use any more."""
        try:
            async with asyncio.timeout(REQUEST_S):
                return await answer
        except TimeoutError:
            self.close("no answer came in time")
            raise Unreachable("no answer came in time") from None

    def close(self, why: str) -> None:
        if self._socket is not None:
            self._socket.abort()
        self._lost(why)

    def _lost(self, why: str) -> None:
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            if not answer.done():
                answer.set_exception(Unreachable(why))
                answer.exception()

    def _received(self, data: bytes) -> None:
        self._bytes += data
        while len(self._bytes) >= 4:
            end = 4 + int.from_bytes(self._bytes[:4])
            if len(self._bytes) < end:
                return
            frame = memoryview(bytes(self._bytes[4:end]))
            del self._bytes[:end]
            answered = self._wire.receive(frame)
            future = self._answers.pop(answered.correlation_id)
            if not future.done():
                future.set_result(answered.response)


class Client:
    """What one client process knows of the cluster."""

    def __init__(
        self, name: str, loop: SimulatedLoop, network: Network, bootstrap: tuple[Address, ...], random: Random
    ) -> None:
        self.name = name
        self.loop = loop
        self.random = random
        self._network = network
        self._bootstrap = bootstrap
        self._connections: dict[Address, Connection] = {}
        self._leaders: dict[tuple[str, int], Leader] = {}
        self._controller: Address | None = None

    async def connection(self, address: Address) -> Connection:
        found = self._connections.get(address)
        if found is None or not found.is_open:
            found = Connection(self.loop)
            await found.open(self._network, self.name, address)
            self._connections[address] = found
        return found

    async def back_off(self) -> None:
        await asyncio.sleep(BACK_OFF_S * (0.5 + self.random.random()))

    async def ask_any(self, request: Message, version: int | None = None) -> Any:
        """Of whichever broker answers."""
        while True:
            address = self.random.choice(self._bootstrap)
            try:
                return await (await self.connection(address)).ask(request, version)
            except Unreachable:
                await self.back_off()

    async def refresh(self, topic: str) -> None:
        answer: metadata.Response = await self.ask_any(
            metadata.Request(topics=[metadata.Request.Topic(name=topic)], allow_auto_topic_creation=False)
        )
        places = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self._controller = places.get(answer.controller_id)
        for described in answer.topics:
            for partition in described.partitions:
                place = places.get(partition.leader_id)
                known = self._leaders.get((topic, partition.partition_index))
                if place is None or partition.error_code:
                    continue
                if known is None or known.epoch <= partition.leader_epoch:
                    leader = Leader(partition.leader_id, partition.leader_epoch, place)
                    self._leaders[topic, partition.partition_index] = leader

    async def leader(self, topic: str, number: int) -> Leader:
        while (topic, number) not in self._leaders:
            await self.refresh(topic)
            if (topic, number) not in self._leaders:
                await self.back_off()
        return self._leaders[topic, number]

    def forget_leader(self, topic: str, number: int) -> None:
        self._leaders.pop((topic, number), None)

    async def create_topic(self, name: str, partitions: int, replicas: int) -> None:
        """Until it is there, whoever made it."""
        topic = create_topics.Request.Topic(
            name=name, num_partitions=partitions, replication_factor=replicas, assignments=(), configs=()
        )
        while True:
            answer = await self.ask_any(create_topics.Request(topics=[topic]))
            code = answer.topics[0].error_code
            if code in (errors.NONE, errors.TOPIC_ALREADY_EXISTS):
                return
            if code not in errors.RETRIABLE and code != errors.INVALID_REPLICATION_FACTOR:  # brokers may still come
                raise Broken(f"topic {name} cannot be created: {errors.name(code)} {answer.topics[0].error_message}")
            await self.back_off()

    async def epoch_end(self, topic: str, number: int, epoch: int) -> tuple[int, int]:
        """(epoch, end offset), as the partition's leader has it."""
        asked = offset_for_leader_epoch.Request.Topic.Partition(partition=number, leader_epoch=epoch)
        request = offset_for_leader_epoch.Request(
            topics=[offset_for_leader_epoch.Request.Topic(topic=topic, partitions=[asked])]
        )
        while True:
            leader = await self.leader(topic, number)
            try:
                answer = await (await self.connection(leader.address)).ask(request)
            except Unreachable:
                code = errors.NETWORK_EXCEPTION
            else:
                found = answer.topics[0].partitions[0]
                code = found.error_code
                if not code:
                    return found.leader_epoch, found.end_offset
            check_retriable("OffsetForLeaderEpoch", code)
            self.forget_leader(topic, number)
            await self.back_off()


def check_retriable(what: str, code: int) -> None:
    if code not in errors.RETRIABLE and code != errors.NETWORK_EXCEPTION:
        raise Broken(f"{what} was answered with {errors.name(code)}")


@dataclass(slots=True)
class Unacknowledged:
    sequence: int
    values: tuple[bytes, ...]
    data: bytes
    answer: "asyncio.Future[Any] | None" = field(default=None)
    connection: Connection | None = None


class Producer:
    """Of one partition; idempotent."""

    def __init__(self, client: Client, history: History, topic: str, number: int, *, in_flight: int, acks: int) -> None:
        self._client = client
        self._history = history
        self._topic = topic
        self._number = number
        self._in_flight = in_flight
        self._acks = acks
        self._sequence = 0
        self._made = 0
        self._acknowledged = 0
        self._id = (-1, -1)
        self._waiting: deque[Unacknowledged] = deque()
        self.is_stopping = False

    async def run(self, pause_s: Callable[[], float]) -> None:
        """Until it is told to stop, and all that it has sent is acknowledged."""
        self._id = await self._producer_id()
        while True:
            # Alone until one is acknowledged: a broker takes any sequence of a producer that it has not met (KIP-98).
            in_flight = self._in_flight if self._acknowledged else 1
            while not self.is_stopping and len(self._waiting) < in_flight:
                self._waiting.append(self._next_batch())
                if self._client.random.random() < 0.5:
                    break
            if not self._waiting:
                return
            try:
                await self._send_waiting()
                await self._take_answer()
            except Unreachable:
                await self._again()
            if not self.is_stopping:
                await asyncio.sleep(pause_s())

    async def _producer_id(self) -> tuple[int, int]:
        while True:
            answer = await self._client.ask_any(
                init_producer_id.Request(transactional_id=None, transaction_timeout_ms=60_000)
            )
            if not answer.error_code:
                self._history.got_producer_id(answer.producer_id)
                return answer.producer_id, answer.producer_epoch
            check_retriable("InitProducerId", answer.error_code)
            await self._client.back_off()

    def _next_batch(self) -> Unacknowledged:
        random = self._client.random
        values = []
        for _ in range(random.choice((1, 1, 2, 5))):
            self._made += 1
            name = f"{self._client.name}/{self._topic}-{self._number}/{self._made}/"
            values.append(name.encode() + bytes(random.choice((0, 10, 100, 100, 3000))))
        batch = build_batch(
            [(None, value, (), BEGIN_MS) for value in values],
            producer_id=self._id[0],
            producer_epoch=self._id[1],
            base_sequence=self._sequence,
        )
        made = Unacknowledged(self._sequence, tuple(values), bytes(batch))
        self._sequence += len(values)
        self._history.sent(self._topic, self._number, self._id[0], made.values)
        return made

    async def _send_waiting(self) -> None:
        client = self._client
        leader = await client.leader(self._topic, self._number)
        connection = await client.connection(leader.address)
        for waiting in self._waiting:
            if waiting.answer is None:
                data = produce.Request.Topic.Partition(index=self._number, records=memoryview(waiting.data))
                topic = produce.Request.Topic(name=self._topic, partition_data=[data])
                request = produce.Request(transactional_id=None, acks=self._acks, timeout_ms=5_000, topic_data=[topic])
                waiting.answer = connection.send(request, BY_NAME)
                waiting.connection = connection

    async def _take_answer(self) -> None:
        head = self._waiting[0]
        assert head.answer is not None and head.connection is not None, "nothing was sent"
        response = await head.connection.outcome(head.answer)
        answer = response.responses[0].partition_responses[0]
        code = answer.error_code
        if code == errors.DUPLICATE_SEQUENCE_NUMBER:
            raise Broken(f"{name_of(head.values[0])} is a duplicate whose offset is not known any more")
        if code:
            check_retriable(f"Produce of {name_of(head.values[0])}", code)
            await self._again()
            return
        self._waiting.popleft()
        self._acknowledged += 1
        self._history.acknowledged(self._topic, self._number, answer.base_offset, head.values)

    async def _again(self) -> None:
        """What is not acknowledged is sent once more; answers that still come to the first try count for nothing."""
        for waiting in self._waiting:
            if waiting.connection is not None and waiting.connection.is_open:
                waiting.connection.close("it is sent again")
            waiting.answer = waiting.connection = None
        self._client.forget_leader(self._topic, self._number)
        await self._client.back_off()


class Reader:
    """Of one partition, from its start, for ever."""

    def __init__(self, client: Client, history: History, topic: str, number: int) -> None:
        self._client = client
        self._history = history
        self._topic = topic
        self._number = number
        self.offset = 0
        self.high_watermark = 0
        self._epoch = -1  # of the last record

    async def run(self) -> None:
        client = self._client
        while True:
            leader = await client.leader(self._topic, self._number)
            try:
                code = await self._fetch(leader)
            except Unreachable:
                code = errors.NETWORK_EXCEPTION
            if code:
                client.forget_leader(self._topic, self._number)
                await client.back_off()

    async def _fetch(self, leader: Leader) -> int:
        """The error code, when it is one that a client waits out."""
        wanted = fetch.Request.Topic.Partition(
            partition=self._number,
            current_leader_epoch=leader.epoch,
            fetch_offset=self.offset,
            last_fetched_epoch=self._epoch,
            partition_max_bytes=self._client.random.choice((1, 1_000, 1 << 20)),
        )
        topic = fetch.Request.Topic(topic=self._topic, partitions=[wanted])
        wait_ms = self._client.random.choice((0, 100, 500))
        connection = await self._client.connection(leader.address)
        response = await connection.ask(fetch.Request(max_wait_ms=wait_ms, min_bytes=1, topics=[topic]), BY_NAME)
        code: int = response.error_code
        if not code:
            answer = response.responses[0].partitions[0]
            code = answer.error_code
        if code:
            check_retriable(f"Fetch of {self._topic}-{self._number} from {self.offset}", code)
            return code
        if answer.diverging_epoch is not None:
            raise Broken(f"a reader of {self._topic}-{self._number} at {self.offset} is told {answer.diverging_epoch}")
        self._take(answer, leader)
        return errors.NONE

    def _take(self, answer: fetch.Response.Topic.Partition, leader: Leader) -> None:
        where = f"{self._topic}-{self._number}"
        if answer.high_watermark < self.high_watermark:
            raise Broken(f"high watermark of {where}: {self.high_watermark}, then {answer.high_watermark} of {leader}")
        self.high_watermark = answer.high_watermark
        records = memoryview(answer.records or b"")  # type: ignore[arg-type]
        for span in spans(records):
            if span.header.end_offset > self.high_watermark:
                raise Broken(f"{where}: a batch up to {span.header.end_offset}, above {self.high_watermark}")
            for record in read_records(records, span.position):
                if record.offset >= self.offset:
                    read = Read(record.offset, span.header.leader_epoch, span.header.producer_id, record.value or b"")
                    self._history.read(self._topic, self._number, self.offset, read)
                    self.offset = record.offset + 1
                    self._epoch = span.header.leader_epoch
