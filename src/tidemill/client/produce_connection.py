"""A connection to one leader with several Produce requests in flight.  Responses arrive in the order of requests."""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.partition_queue import PendingBatch
from tidemill.wire.messages import produce

_LAST_VERSION_BY_NAME: Final = 12  # later versions identify topics by id
_ALL_IN_SYNC_REPLICAS: Final = -1


class ProduceAnswer(NamedTuple):
    """The broker's answer to one batch; `answer` is None if the response does not mention its partition."""

    pending: PendingBatch
    answer: produce.Response.Topic.Partition | None


class ProduceConnection:
    """Sends Produce requests, each with at most one batch per partition, as brokers require."""

    def __init__(self, connection: BrokerConnection, *, request_timeout_ms: int) -> None:
        self.connection = connection
        self.muted_until = 0.0  # until when the broker throttles requests because of a quota, on the producer's clock
        self._timeout_ms = request_timeout_ms
        self._version = connection.version_of(produce.API, newest=_LAST_VERSION_BY_NAME)
        self._in_flight: deque[tuple[float, Sequence[PendingBatch]]] = deque()

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    @property
    def oldest_sent_at(self) -> float | None:
        """When the oldest outstanding request was sent, on the producer's clock; None if there is none."""
        return self._in_flight[0][0] if self._in_flight else None

    def batches_in_flight(self) -> list[PendingBatch]:
        return [pending for _, batches in self._in_flight for pending in batches]

    def send(self, batches: Sequence[PendingBatch], now: float) -> None:
        """Send one request with these batches, each of a different partition.  Raise BrokerUnreachable."""
        self._in_flight.append((now, batches))  # even if sending fails: the broker may have received the request
        by_topic: dict[str, list[produce.Request.Topic.Partition]] = {}
        for pending in batches:
            topic, partition = pending.queue.partition
            one = produce.Request.Topic.Partition(index=partition, records=memoryview(pending.batch))
            by_topic.setdefault(topic, []).append(one)
        request = produce.Request(
            acks=_ALL_IN_SYNC_REPLICAS,
            timeout_ms=self._timeout_ms,
            topic_data=[produce.Request.Topic(name=name, partition_data=parts) for name, parts in by_topic.items()],
        )
        self.connection.send(produce.API, request, version=self._version)

    def receive(self, now: float) -> list[ProduceAnswer]:
        """Return the answers to the oldest request.  Raise BrokerUnreachable."""
        response: produce.Response = self.connection.receive()
        _, batches = self._in_flight.popleft()
        self.muted_until = now + response.throttle_time_ms / 1_000
        answers = {(topic.name, one.index): one for topic in response.responses for one in topic.partition_responses}
        return [ProduceAnswer(pending, answers.get(pending.queue.partition)) for pending in batches]
