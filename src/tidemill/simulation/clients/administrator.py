"""
The administrator of a simulated cluster: it creates and deletes topics, deletes records and elects preferred leaders.

Every step except an election is retried until it succeeds.  Each topic that the administrator creates has a producer
and a reader, and both end before the topic is deleted.  A later topic may have the same name, but must not contain any
records of the earlier one.
"""

import asyncio
from collections.abc import Callable, Sized
from typing import Any, Final

from tidemill.simulation.clients.client import Client, Unreachable, check_retriable
from tidemill.simulation.clients.history import History
from tidemill.simulation.clients.producer import Producer
from tidemill.simulation.clients.reader import Reader
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.wire.messages import delete_records, elect_leaders

NAMES: Final = ("arrivals", "departures")
ELECTION_MS: Final = 2_000
READ_S: Final = 0.2  # the time between checks for whether all acknowledged records have been read


class _TemporaryTopic:
    """A topic that is created and deleted during the run: one partition, its producer and its reader."""

    def __init__(self, producer: Producer, reader: Reader, pause_s: Callable[[], float]) -> None:
        loop = asyncio.get_running_loop()
        self.producer, self.reader = producer, reader
        self._tasks = [loop.create_task(producer.run(pause_s)), loop.create_task(reader.run())]

    async def end(self, acknowledged: Sized) -> None:
        """Stop the producer once all of its batches are acknowledged, and the reader once it has read them."""
        self.producer.is_stopping = True
        await self._tasks[0]
        while self.reader.offset < len(acknowledged):  # noqa: ASYNC110
            await asyncio.sleep(READ_S)
        self.reader.is_stopping = True
        await self._tasks[1]


class Administrator:
    def __init__(
        self,
        client: Client,
        new_client: Callable[[str], Client],
        history: History,
        readers: dict[tuple[str, int], Reader],
        *,
        replicas: int,
        pause_s: Callable[[], float],
        producer_pause_s: Callable[[], float],
    ) -> None:
        """`readers` maps partitions to their readers: the administrator deletes only records that have been read."""
        self._client = client
        self._new_client = new_client
        self._history = history
        self._readers = readers
        self._replicas = replicas
        self._pause_s = pause_s
        self._producer_pause_s = producer_pause_s
        self._temporary: dict[str, _TemporaryTopic] = {}
        self._created = 0
        self.is_stopping = False

    async def run(self) -> None:
        """
        Run until `is_stopping` is set.  Then finish the current step, and wait until every temporary topic has been
        read completely.
        """
        while not self.is_stopping:
            await self._client.random.choice((self._create_or_delete_topic, self._delete_records, self._elect))()
            await asyncio.sleep(self._pause_s())
        for name in self._temporary:
            await self._end(name)

    async def _create_or_delete_topic(self) -> None:
        name = self._client.random.choice(NAMES)
        if name in self._temporary:
            await self._end(name)
            await self._client.delete_topic(name)
            self._history.forget(name)
            del self._temporary[name]
            return
        await self._client.create_topic(name, 1, self._replicas)
        self._created += 1
        producer = Producer(
            self._new_client(f"producer-{name}-{self._created}"), self._history, name, 0, in_flight=2, acks=-1
        )
        reader = Reader(self._new_client(f"reader-{name}-{self._created}"), self._history, name, 0)
        self._temporary[name] = _TemporaryTopic(producer, reader, self._producer_pause_s)

    async def _end(self, name: str) -> None:
        await self._temporary[name].end(self._history.partition(name, 0).acknowledged)
        self._history.check_read(name, 0)

    async def _delete_records(self) -> None:
        """Delete some of the records that have been read."""
        client = self._client
        (topic, number), reader = client.random.choice([*self._readers.items()])
        offset = client.random.randint(0, reader.offset)
        partition = self._history.partition(topic, number)
        partition.delete_asked = max(partition.delete_asked, offset)
        asked = delete_records.Request.Topic.Partition(partition_index=number, offset=offset)
        request = delete_records.Request(
            topics=[delete_records.Request.Topic(name=topic, partitions=[asked])], timeout_ms=5_000
        )
        found = await client.ask_leader("DeleteRecords", topic, number, request)
        if not offset <= found.low_watermark <= partition.delete_asked:
            raise InvariantViolation(
                f"{topic}-{number}: deleted up to {offset}, and the log starts at {found.low_watermark}"
            )
        partition.deleted = max(partition.deleted, found.low_watermark)

    async def _elect(self) -> None:
        """Request an election once, without a retry: brokers may refuse it for several valid reasons."""
        request = elect_leaders.Request(topic_partitions=None, timeout_ms=ELECTION_MS)
        try:
            answer: Any = await self._client.ask_once(request)
        except Unreachable:
            return
        results = [found.error_code for topic in answer.replica_election_results for found in topic.partition_result]
        for code in filter(None, (answer.error_code, *results)):
            check_retriable("ElectLeaders", code)
