"""The connections of a producer to the leaders of its partitions: at most one per broker, opened when it is needed."""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tidemill.client.broker_connection import wait_for_responses
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import BrokerUnreachable
from tidemill.client.partition_queue import PendingBatch
from tidemill.client.produce_connection import ProduceAnswer, ProduceConnection


class LostConnection(NamedTuple):
    """A connection that failed and is closed.  It is unknown whether its batches are stored."""

    batches: list[PendingBatch]
    cause: BrokerUnreachable


class LeaderConnections:
    """Opens, polls and closes the connections.  Times are seconds on the producer's clock.  It is not thread-safe."""

    def __init__(
        self, cluster: ClusterMetadata, *, request_timeout_ms: int, in_flight_max: int, now: Callable[[], float]
    ) -> None:
        """`in_flight_max` limits the requests in flight per connection."""
        self._cluster = cluster
        self._request_timeout_ms = request_timeout_ms
        self._in_flight_max = in_flight_max
        self._now = now
        self._by_broker: dict[int, ProduceConnection] = {}

    def close(self) -> None:
        for link in self._by_broker.values():
            link.connection.close()
        self._by_broker.clear()

    def open(self, broker_id: int) -> ProduceConnection:
        """Return the connection to this broker; open it if there is none.  Raise BrokerUnreachable."""
        link = self._by_broker.get(broker_id)
        if link is None:
            connection = self._cluster.open_connection(broker_id)
            link = ProduceConnection(connection, request_timeout_ms=self._request_timeout_ms)
            self._by_broker[broker_id] = link
        return link

    def has_room(self, link: ProduceConnection) -> bool:
        """Return whether another request may be sent now."""
        return link.in_flight_count < self._in_flight_max and link.muted_until <= self._now()

    def lose(self, broker_id: int, cause: BrokerUnreachable) -> LostConnection:
        """Close a connection that failed, and return it with its batches in flight."""
        link = self._by_broker.pop(broker_id)
        link.connection.close()
        return LostConnection(link.batches_in_flight(), cause)

    def receive(self, timeout_s: float) -> Iterator[ProduceAnswer | LostConnection]:
        """Yield all answers that have arrived, and the connections that failed.  Wait up to `timeout_s` for the first.

        If no answer is outstanding, sleep for `timeout_s`.
        """
        while True:
            links = {link.connection: (broker_id, link) for broker_id, link in self._by_broker.items()}
            awaited = [link.connection for link in self._by_broker.values() if link.in_flight_count]
            if not awaited:
                if timeout_s > 0:
                    time.sleep(timeout_s)
                return
            ready = wait_for_responses(awaited, timeout_s)
            if not ready:
                return
            timeout_s = 0
            for connection in ready:
                broker_id, link = links[connection]
                try:
                    answers = link.receive(self._now())
                except BrokerUnreachable as error:
                    yield self.lose(broker_id, error)
                    continue
                yield from answers

    def lose_silent(self) -> Iterator[LostConnection]:
        """Close and yield the connections whose broker does not answer a request within its timeout."""
        oldest = self._now() - self._request_timeout_ms / 1_000
        for broker_id, link in list(self._by_broker.items()):
            if link.oldest_sent_at is not None and link.oldest_sent_at <= oldest:
                endpoint = link.connection.endpoint
                name = f"broker {endpoint.host}:{endpoint.port}"
                cause = BrokerUnreachable(f"{name} did not respond within {self._request_timeout_ms} ms")
                yield self.lose(broker_id, cause)

    def wake_times(self) -> Iterator[float]:
        """Yield the times at which a request times out, or at which the throttling of a connection by a quota ends."""
        now = self._now()
        for link in self._by_broker.values():
            if link.oldest_sent_at is not None:
                yield link.oldest_sent_at + self._request_timeout_ms / 1_000
            if link.muted_until > now:
                yield link.muted_until
