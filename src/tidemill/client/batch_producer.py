"""Sends encoded record batches: idempotent, in order per partition, and retried across leader changes.

    producer = BatchProducer(cluster, settings)
    producer.send(partition, batch, record_count)
    acknowledged = producer.flush()

The producer has no threads.  Its methods send to all leaders concurrently, up to `in_flight_max` requests per
leader, and wait only if the buffer is full, or in `flush`.  Time between calls does not count towards timeouts: the
producer never gives up a batch before it has checked for the response and could have retried.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from tidemill.client.acknowledgements import Acknowledged, Acknowledgements
from tidemill.client.batch_halves import halves
from tidemill.client.cluster_metadata import ClusterMetadata, LeaderUnknown
from tidemill.client.failures import BrokerUnreachable, ClientError, RetriesExhausted, UnknownTopic
from tidemill.client.leader_connections import LeaderConnections, LostConnection
from tidemill.client.partition_queue import NO_PRODUCER, PartitionQueue, PendingBatch, ProducerId
from tidemill.client.produce_outcome import Outcome, outcome_of, refusal
from tidemill.client.producer_id import new_producer_id
from tidemill.client.producer_settings import ProducerSettings
from tidemill.model.partition import TopicPartition
from tidemill.wire.messages import produce

_EPOCH_MAX: Final = (1 << 15) - 1
_WAIT_S_MAX: Final = 1.0  # bounds a wait in case a deadline is computed wrongly


class DeliveryFailed(ClientError):
    """A batch could not be delivered.  The message names the partition, the cause and, if known, the fix."""

    def __init__(self, partition: TopicPartition, detail: str) -> None:
        super().__init__(f"{partition.topic}-{partition.partition}: {detail}")
        self.partition = partition


class BatchProducer:
    """
    Sends batches to the leaders of their partitions.  It is not thread-safe.

    After an error, every further call raises the same error: records of the failed write may or may not be stored.
    """

    def __init__(
        self,
        cluster: ClusterMetadata,
        settings: ProducerSettings,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`cluster` must know the topics of all batches."""
        self._cluster = cluster
        self._settings = settings
        self._monotonic = monotonic
        self._chance = chance
        self._left_at = monotonic()
        self._away = 0.0  # seconds spent between calls, which the producer's clock excludes
        self._producer: ProducerId | None = None
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._busy: dict[PartitionQueue, None] = {}  # queues with batches, as an ordered set
        self._connections = LeaderConnections(
            cluster,
            request_timeout_ms=min(cluster.settings.request_timeout_ms, settings.delivery_timeout_ms),
            in_flight_max=settings.in_flight_max,
            now=self._now,
        )
        self._buffered_bytes = 0
        self._unsent_bytes = 0
        self._acknowledged = Acknowledgements()
        self._refresh_at: float | None = None  # when to refresh the metadata next, on the producer's clock
        self._failure: ClientError | None = None

    @property
    def is_reusable(self) -> bool:
        """Whether no call has failed and all batches are acknowledged, so that another write can use the producer."""
        return self._failure is None and not self._busy

    def send(self, partition: TopicPartition, batch: bytearray, record_count: int) -> None:
        """
        Queue a batch, and stamp it with producer id, epoch and sequence before it is sent.

        The caller must not use `batch` afterwards.  Wait while the buffer is full.  Raise DeliveryFailed, which may be
        about an earlier batch, and ClientError.
        """
        with self._call():
            while self._busy and self._buffered_bytes + len(batch) > self._settings.buffer_bytes:
                self._step()
            queue = self._queues.get(partition)
            if queue is None:
                queue = self._queues[partition] = PartitionQueue(partition, self._producer_id())
            deadline = self._now() + self._settings.delivery_timeout_ms / 1_000
            queue.batches.append(PendingBatch(queue, batch, record_count, deadline))
            self._busy[queue] = None
            self._buffered_bytes += len(batch)
            self._unsent_bytes += len(batch)
            if self._unsent_bytes >= self._settings.request_bytes_max:
                self._advance(self._settings.request_bytes_max)

    def flush(self) -> dict[TopicPartition, Acknowledged]:
        """
        Wait until all batches are acknowledged.  Return what was acknowledged since the last `flush`.

        Raise DeliveryFailed and ClientError.
        """
        with self._call():
            while self._busy:
                self._step()
            return self._acknowledged.take()

    def close(self) -> None:
        """Close the connections.  Batches that are not acknowledged may be lost; call `flush` first."""
        self._connections.close()

    def _now(self) -> float:
        return self._monotonic() - self._away

    def _producer_id(self) -> ProducerId:
        if not self._settings.is_idempotent:
            return NO_PRODUCER
        if self._producer is None:
            self._producer = new_producer_id(self._cluster, deadline_ms=self._settings.delivery_timeout_ms)
        return self._producer

    @contextmanager
    def _call(self) -> Iterator[None]:
        """
        Wrap one call of a public method: the producer's clock stops between calls, and an error is kept for later
        calls.
        """
        if self._failure is not None:
            raise self._failure
        self._away += self._monotonic() - self._left_at
        try:
            yield
        except BaseException as error:
            interrupted = ClientError("the write was interrupted, so it is unknown which records are stored")
            self._failure = error if isinstance(error, ClientError) else interrupted
            self.close()
            raise
        finally:
            self._left_at = self._monotonic()

    # One step of the producer: receive responses, give up batches, refresh metadata, send requests, wait

    def _step(self) -> None:
        """Send what can be sent, and wait for a response or until a retry is due."""
        self._advance(1)
        self._receive_all(self._seconds_to_wait())
        for lost in self._connections.lose_silent():
            self._retry_later(lost)

    def _advance(self, bytes_min: int) -> None:
        """Process the responses that have arrived, and send requests of at least `bytes_min` bytes."""
        self._receive_all(0)
        self._give_up_late_batches()
        if self._refresh_at is not None and self._refresh_at <= self._now() and self._busy:
            self._refresh()
        self._send_all(bytes_min)

    def _refresh(self) -> None:
        """Refresh the metadata of the topics in use, but wait at most until the first deadline."""
        topics = dict.fromkeys([*(queue.partition.topic for queue in self._busy), *self._acknowledged.topics()])
        seconds_left = min(queue.batches[0].deadline for queue in self._busy) - self._now()
        deadline_ms = min(self._cluster.settings.api_timeout_ms, max(int(seconds_left * 1_000), 1))
        self._refresh_at = None
        try:
            self._cluster.refresh(list(topics), deadline_ms=deadline_ms)
        except RetriesExhausted as error:
            for queue in self._busy:
                if not queue.in_flight:
                    self._delay(queue, queue.batches[0], error)

    def _send_all(self, bytes_min: int) -> None:
        """
        Send requests to every leader that may get another request and for which at least `bytes_min` bytes are waiting.
        """
        now = self._now()
        waiting: dict[int, list[PendingBatch]] = {}
        for queue in self._busy:
            pending = None if queue.ready_at > now else queue.next_batch()
            if pending is None:
                continue
            if queue.must_restart:
                queue.restart(self._next_epoch())
            broker_id = self._leader_of(queue, pending)
            if broker_id is not None and (not queue.in_flight or queue.broker_id == broker_id):
                waiting.setdefault(broker_id, []).append(pending)
        for broker_id, batches in waiting.items():
            self._send_to(broker_id, batches, bytes_min)

    def _leader_of(self, queue: PartitionQueue, pending: PendingBatch) -> int | None:
        try:
            return self._cluster.leader(queue.partition).broker_id
        except (LeaderUnknown, UnknownTopic) as error:
            self._delay(queue, pending, error)
            return None

    def _send_to(self, broker_id: int, batches: list[PendingBatch], bytes_min: int) -> None:
        """Send as many requests as may be in flight.  `batches` contains the next batch of each queue."""
        batches.sort(key=lambda pending: pending.deadline)
        while batches:
            try:
                link = self._connections.open(broker_id)
            except BrokerUnreachable as error:
                for pending in batches:
                    self._delay(pending.queue, pending, error)
                return
            if not self._connections.has_room(link):
                return
            room = self._settings.request_bytes_max
            chosen: list[PendingBatch] = []
            for pending in batches:
                if not chosen or pending.size <= room:
                    chosen.append(pending)
                    room -= pending.size
            if self._settings.request_bytes_max - room < bytes_min and len(chosen) == len(batches):
                return  # Wait for more batches, which will make a larger request.
            for pending in chosen:
                pending.queue.start(pending, broker_id)
                self._unsent_bytes -= pending.size
            try:
                link.send(chosen, self._now())
            except BrokerUnreachable as error:
                self._retry_later(self._connections.lose(broker_id, error))
                return
            following = [pending.queue.next_batch() for pending in chosen]
            taken = set(chosen)
            batches = [pending for pending in batches if pending not in taken]
            batches += [pending for pending in following if pending is not None]

    def _seconds_to_wait(self) -> float:
        """Return the time until the next retry, deadline, request timeout, or end of a throttle; 0 if all is done."""
        if not self._busy:
            return 0
        now = self._now()
        times = [now + _WAIT_S_MAX, *self._connections.wake_times()]
        for queue in self._busy:
            times.append(queue.batches[0].deadline)
            if not queue.in_flight and queue.ready_at > now:
                times.append(queue.ready_at)
        return max(min(times) - now, 0)

    def _receive_all(self, timeout_s: float) -> None:
        """Process all responses that have arrived.  Wait up to `timeout_s` for the first one."""
        for event in self._connections.receive(timeout_s):
            if isinstance(event, LostConnection):
                self._retry_later(event)
            else:
                self._process(event.pending, event.answer)

    def _give_up_late_batches(self) -> None:
        now = self._now()
        for queue in self._busy:
            pending = queue.batches[0]
            if pending.deadline <= now:
                cause = pending.cause or "no broker responded"
                raise DeliveryFailed(
                    queue.partition,
                    f"{pending.record_count} records were not acknowledged within "
                    f"delivery.timeout.ms={self._settings.delivery_timeout_ms}: {cause}",
                ) from pending.cause

    # How the response to a batch is processed

    def _process(self, pending: PendingBatch, answer: produce.Response.Topic.Partition | None) -> None:
        queue = pending.queue
        outcome = outcome_of(answer, is_first=queue.is_first(pending))
        if outcome is Outcome.ACKNOWLEDGED:
            assert answer is not None
            queue.acknowledge(pending)
            self._buffered_bytes -= pending.size
            if not queue.batches:
                del self._busy[queue]
            self._acknowledged.add(pending, answer.base_offset)
            return
        cause = refusal(queue.name, answer)
        if outcome is Outcome.SPLIT and pending.record_count > 1:
            queue.fail(pending, cause)
            parts = halves(pending.batch, self._settings.level)
            queue.split(pending, parts)
            size = sum(len(batch) for batch, _ in parts)
            self._buffered_bytes += size - pending.size
            self._unsent_bytes += size
            return
        if outcome in (Outcome.REFUSED, Outcome.SPLIT) or self._are_retries_exhausted(pending):
            raise DeliveryFailed(queue.partition, f"{pending.record_count} records are refused: {cause}") from cause
        if outcome is Outcome.RESTART and queue.producer != NO_PRODUCER:
            queue.must_restart = True
        self._delay(queue, pending, cause)

    def _are_retries_exhausted(self, pending: PendingBatch) -> bool:
        return self._settings.retries_max is not None and pending.attempts > self._settings.retries_max

    # How a failed attempt to send a batch is repeated

    def _retry_later(self, lost: LostConnection) -> None:
        """Send the batches of a lost connection again, with the same sequence numbers."""
        for pending in lost.batches:
            if self._are_retries_exhausted(pending):
                retries = f"retries={self._settings.retries_max}"
                raise DeliveryFailed(pending.queue.partition, f"{retries}: {lost.cause}") from lost.cause
            self._delay(pending.queue, pending, lost.cause)

    def _delay(self, queue: PartitionQueue, pending: PendingBatch, cause: ClientError) -> None:
        """Record a failed attempt, and make the queue wait before the next attempt."""
        if pending in queue.in_flight:
            self._unsent_bytes += pending.size
        queue.fail(pending, cause)
        settings = self._cluster.settings
        step_ms = min(settings.retry_backoff_ms << min(queue.failures - 1, 16), settings.retry_backoff_ms_max)
        queue.ready_at = self._now() + step_ms * (1 + self._chance()) / 2_000
        self._refresh_at = queue.ready_at if self._refresh_at is None else min(self._refresh_at, queue.ready_at)

    def _next_epoch(self) -> ProducerId:
        """Return this producer's id with a new epoch (KIP-360), or a new id after the last epoch."""
        assert self._producer is not None
        if self._producer.epoch >= _EPOCH_MAX:
            self._producer = None
            return self._producer_id()
        self._producer = ProducerId(self._producer.producer_id, self._producer.epoch + 1)
        return self._producer
