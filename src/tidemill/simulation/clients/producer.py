"""An idempotent producer for one partition, on virtual time.

Up to five batches are in flight.  After an uncertain outcome the producer sends them again, in order and with the same
sequence numbers, until they are acknowledged (KIP-98).  Each value is unique, and contains its sender and its number
among the sender's values.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidemill.batches.builder import RecordTuple, build_batch
from tidemill.batches.compression import Codec
from tidemill.model import errors
from tidemill.simulation.clients.client import BY_NAME, Client, Connection, Unreachable, check_retriable
from tidemill.simulation.clients.history import History, name_of
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.machine.machine import BEGIN_MS
from tidemill.wire.messages import init_producer_id, produce


@dataclass(slots=True)
class Unacknowledged:
    sequence: int
    values: tuple[bytes, ...]
    data: bytes
    answer: "asyncio.Future[Any] | None" = field(default=None)
    connection: Connection | None = None


class Producer:
    """An idempotent producer for one partition."""

    def __init__(
        self,
        client: Client,
        history: History,
        topic: str,
        number: int,
        *,
        in_flight: int,
        acks: int,
        batches_max: int | None = None,
        keys: int = 0,
    ) -> None:
        """
        The producer stops after `batches_max` batches (None: no limit), or when `is_stopping` is set.  Its records have
        one of `keys` keys or none, in turn.
        """
        self._client = client
        self._batches_max = batches_max
        self._history = history
        self._topic = topic
        self._number = number
        self._in_flight = in_flight
        self._acks = acks
        self._keys = keys
        self._sequence = 0
        self._made = 0
        self._batches = 0
        self._acknowledged = 0
        self._id = (-1, -1)
        self._waiting: deque[Unacknowledged] = deque()
        self.is_stopping = False

    async def run(self, pause_s: Callable[[], float]) -> None:
        """Run until `is_stopping` is set and all sent batches have been acknowledged."""
        self._id = await self._producer_id()
        while True:
            # Send one batch at a time until the first is acknowledged: a broker accepts any first sequence number from
            # a producer that it does not know (KIP-98).
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
                await self._resend()
            if not self.is_stopping:
                await asyncio.sleep(pause_s())

    async def _producer_id(self) -> tuple[int, int]:
        while True:
            answer = await self._client.ask_any(
                init_producer_id.Request(transactional_id=None, transaction_timeout_ms=60_000)
            )
            if not answer.error_code:
                self._history.check_producer_id(answer.producer_id)
                return answer.producer_id, answer.producer_epoch
            check_retriable("InitProducerId", answer.error_code)
            await self._client.back_off()

    def _next_batch(self) -> Unacknowledged:
        records = [self._next_record() for _ in range(self._client.random.choice((1, 1, 2, 5)))]
        batch = build_batch(
            records,
            codec=self._codec(),
            producer_id=self._id[0],
            producer_epoch=self._id[1],
            base_sequence=self._sequence,
        )
        values = tuple(value for _, value, _, _ in records if value is not None)
        made = Unacknowledged(self._sequence, values, bytes(batch))
        self._sequence += len(records)
        self._batches += 1
        if self._batches == self._batches_max:
            self.is_stopping = True
        self._history.sent(self._topic, self._number, self._id[0], made.values)
        return made

    def _next_record(self) -> RecordTuple:
        """Return a record with a unique value."""
        self._made += 1
        name = f"{self._client.name}/{self._topic}-{self._number}/{self._made}/"
        turn = self._made % (self._keys + 1)
        value = name.encode() + bytes(self._client.random.choice((0, 10, 100, 100, 3000)))
        return b"%d" % turn if turn else None, value, (), self._now_ms()

    def _codec(self) -> Codec:
        """Return how the next batch is compressed."""
        return Codec.NONE

    def _now_ms(self) -> int:
        return BEGIN_MS + int(asyncio.get_running_loop().time() * 1_000)

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
            raise InvariantViolation(
                f"{name_of(head.values[0])} is a duplicate whose offset the broker no longer knows"
            )
        if code:
            check_retriable(f"Produce of {name_of(head.values[0])}", code)
            await self._resend()
            return
        self._waiting.popleft()
        self._acknowledged += 1
        self._history.acknowledged(self._topic, self._number, answer.base_offset, head.values)

    async def _resend(self) -> None:
        """
        Prepare to send all unacknowledged batches again.  Close their connections, so that late answers to the earlier
        attempt are dropped.
        """
        for waiting in self._waiting:
            if waiting.connection is not None and waiting.connection.is_open:
                waiting.connection.close("the batch is sent again")
            waiting.answer = waiting.connection = None
        self._client.forget_leader(self._topic, self._number)
        await self._client.back_off()
