"""A Kafka client on virtual time: its connections, and its cached partition leaders.

The client consists of coroutines on a `SimulatedLoop`, and exchanges bytes with brokers through the simulated network.
It speaks the protocol itself, without a client library.  `producer.py` and `reader.py` use it; `history.py` checks the
answers.
"""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any, Final, NamedTuple

from tidemill.model import errors
from tidemill.model.broker_id import CONSUMER_REPLICA_ID
from tidemill.model.config_resolution import NOTHING
from tidemill.model.topic import NO_TOPIC_ID, TopicId
from tidemill.peer import timer_resolve
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.machine.event_loop import SimulatedLoop
from tidemill.simulation.machine.network import Network, Socket
from tidemill.wire.api import ALL
from tidemill.wire.client_connection import ClientConnection
from tidemill.wire.messages import (
    alter_share_group_offsets,
    create_topics,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_topics,
    describe_share_group_offsets,
    elect_leaders,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
)
from tidemill.wire.schema import Message

REQUEST_S: Final = 8.0  # a client closes a connection that has not answered within this time
BACK_OFF_S: Final = 0.1
EARLIEST: Final = -2
BY_NAME: Final = 12  # the last version of Produce and Fetch that identifies topics by name
Address = tuple[str, int]

APIS: Final = {
    message.Request: ALL[message.API.key]
    for message in (
        alter_share_group_offsets,
        delete_groups,
        delete_share_group_offsets,
        describe_share_group_offsets,
        create_topics,
        delete_records,
        delete_topics,
        elect_leaders,
        fetch,
        find_coordinator,
        incremental_alter_configs,
        init_producer_id,
        list_offsets,
        metadata,
        offset_commit,
        offset_fetch,
        offset_for_leader_epoch,
        produce,
        share_acknowledge,
        share_fetch,
        share_group_heartbeat,
    )
} | {timer_resolve.Request: timer_resolve.API}


class Unreachable(Exception):
    """The connection failed, was lost, or timed out.  The request may have been executed."""


class Leader(NamedTuple):
    broker_id: int
    epoch: int
    address: Address


class Connection:
    """The requests in flight on one connection, which are answered in order."""

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
        """Return a future for the answer.  It raises `Unreachable` if the connection ends first."""
        answer = self._loop.create_future()
        if self._socket is None or not self._socket.is_open:
            answer.set_exception(Unreachable("the connection is closed"))
            answer.exception()  # marks the exception as retrieved: a caller may await only the first of several answers
            return answer
        correlation_id, parts = self._wire.send(APIS[type(request)], request, version=version)
        self._answers[correlation_id] = answer
        self._socket.send(b"".join(parts))
        return answer

    async def ask(self, request: Message, version: int | None = None) -> Any:
        return await self.outcome(self.send(request, version))

    async def outcome(self, answer: "asyncio.Future[Any]") -> Any:
        """
        Return the answer.  If it does not arrive within `REQUEST_S`, close the connection and raise `Unreachable`.
        """
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
    """One client process and its view of the cluster."""

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
        self._deleted: set[TopicId] = {NO_TOPIC_ID}  # ids that no topic has any more

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
        """Return the answer from a random broker; retry until one answers."""
        while True:
            try:
                return await self.ask_once(request, version)
            except Unreachable:
                await self.back_off()

    async def ask_once(self, request: Message, version: int | None = None) -> Any:
        return await (await self.connection(self.random.choice(self._bootstrap))).ask(request, version)

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

    async def create_topic(
        self, name: str, partitions: int, replicas: int, configs: Mapping[str, str] = NOTHING
    ) -> None:
        """Create a topic: retry until it exists, even if an earlier attempt or another request created it."""
        config = create_topics.Request.Topic.Config
        topic = create_topics.Request.Topic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=(),
            configs=[config(name=key, value=value) for key, value in configs.items()],
        )
        while True:
            answer = await self.ask_any(create_topics.Request(topics=[topic]))
            code = answer.topics[0].error_code
            if code in (errors.NONE, errors.TOPIC_ALREADY_EXISTS):
                return
            # INVALID_REPLICATION_FACTOR is retried, because more brokers may join.
            if code not in errors.RETRIABLE and code != errors.INVALID_REPLICATION_FACTOR:
                raise InvariantViolation(
                    f"topic {name} cannot be created: {errors.name(code)} {answer.topics[0].error_message}"
                )
            await self.back_off()

    async def delete_topic(self, name: str) -> None:
        """
        Delete a topic: retry until it is deleted.  The topic is identified by its id, because an attempt whose answer
        is lost may be executed late, when there is a new topic of the same name.
        """
        topic_id = await self.topic_id(name)
        self._deleted.add(topic_id)
        request = delete_topics.Request(
            topics=[delete_topics.Request.Topic(name=None, topic_id=topic_id)], timeout_ms=5_000
        )
        is_perhaps_done = False
        while True:
            try:
                answer = await self.ask_once(request)
                code = answer.responses[0].error_code
            except Unreachable:
                code = errors.REQUEST_TIMED_OUT
            if not code or (code == errors.UNKNOWN_TOPIC_ID and is_perhaps_done):
                return
            if code == errors.UNKNOWN_TOPIC_ID:
                raise InvariantViolation(
                    f"topic {name} cannot be deleted: it was created, and the broker does not know it"
                )
            check_retriable(f"DeleteTopics of {name}", code)
            is_perhaps_done = True
            await self.back_off()

    async def topic_id(self, name: str) -> TopicId:
        """Return the id of a topic that exists, from a broker that knows it already."""
        request = metadata.Request(topics=[metadata.Request.Topic(name=name)], allow_auto_topic_creation=False)
        while True:
            (found,) = (await self.ask_any(request)).topics
            if found.topic_id not in self._deleted:
                return found.topic_id  # type: ignore[no-any-return]
            await self.back_off()

    async def log_start(self, topic: str, number: int) -> int:
        asked = list_offsets.Request.Topic.Partition(partition_index=number, timestamp=EARLIEST)
        request = list_offsets.Request(
            replica_id=CONSUMER_REPLICA_ID, topics=[list_offsets.Request.Topic(name=topic, partitions=[asked])]
        )
        answer = await self.ask_leader("ListOffsets", topic, number, request)
        return int(answer.offset)

    async def epoch_end(self, topic: str, number: int, epoch: int) -> tuple[int, int]:
        """Return (epoch, end offset) from the partition leader's answer to OffsetForLeaderEpoch."""
        asked = offset_for_leader_epoch.Request.Topic.Partition(partition=number, leader_epoch=epoch)
        request = offset_for_leader_epoch.Request(
            topics=[offset_for_leader_epoch.Request.Topic(topic=topic, partitions=[asked])]
        )
        found = await self.ask_leader("OffsetForLeaderEpoch", topic, number, request)
        return found.leader_epoch, found.end_offset

    async def ask_leader(self, what: str, topic: str, number: int, request: Message) -> Any:
        """Return the leader's answer for the request's only partition; retry after retriable errors."""
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
                    return found
            check_retriable(f"{what} of {topic}-{number}", code)
            self.forget_leader(topic, number)
            await self.back_off()


def check_retriable(what: str, code: int) -> None:
    if code not in errors.RETRIABLE and code != errors.NETWORK_EXCEPTION:
        raise InvariantViolation(f"{what} failed with the error {errors.name(code)}")
