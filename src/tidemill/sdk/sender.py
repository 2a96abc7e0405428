"""How the client sends records: by Kafka's protocol, or over HTTP where only that is known."""

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from concurrent.futures import Future
from threading import Thread
from typing import Any, Final, Protocol
from urllib.parse import quote

import confluent_kafka

from tidemill.sdk.api_client import ApiClient
from tidemill.sdk.problems import BrokersUnavailable, RequestRefused, SendFailed
from tidemill.sdk.record import NewRecord, Sent

POLL_S: Final = 0.2  # how soon the thread notices that the sender is closed
FLUSH_S_MAX: Final = 60.0
HEADROOM_S: Final = 0.01  # how soon a full buffer is tried again
DEFAULTS: Final[Mapping[str, object]] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 1,  # a caller waits for each record
    "partitioner": "murmur2_random",  # as Java's producer and the HTTP API choose
}


class Sender(Protocol):
    def begin(self, record: NewRecord) -> "Future[Sent]":
        """
        Begin to send a record, from any thread.  The result is where it was written; the exception is SendFailed.

        Raise BufferError if too many records are on their way.
        """
        ...

    def flush(self, timeout_s: float) -> int:
        """Wait for the records that are on their way, in a thread without an event loop.  Return how many are left."""
        ...

    def close(self) -> None:
        """Wait for the records that are on their way.  Raise SendFailed if some were not written in time."""
        ...


class KafkaSender:
    """Sends records with librdkafka: idempotent, in batches, acknowledged by a majority."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._producer = confluent_kafka.Producer({**DEFAULTS, **settings})
        self._is_closed = False
        self._polling = Thread(target=self._poll, name="tidemill-sender", daemon=True)
        self._polling.start()

    def begin(self, record: NewRecord) -> "Future[Sent]":
        sent: Future[Sent] = Future()
        sent.set_running_or_notify_cancel()  # the record is written even if its caller does not wait

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                sent.set_result(Sent(record.topic, message.partition(), message.offset()))
            else:
                sent.set_exception(SendFailed(f"a record was not written to topic {record.topic}: {error.str()}"))

        more: dict[str, int] = {} if record.partition is None else {"partition": record.partition}
        if record.timestamp_ms is not None:
            more["timestamp"] = record.timestamp_ms
        try:
            self._producer.produce(
                record.topic, record.value, record.key, headers=record.headers, on_delivery=delivered, **more
            )
        except confluent_kafka.KafkaException as error:
            raise SendFailed(f"a record was not written to topic {record.topic}: {error.args[0].str()}") from error
        return sent

    def flush(self, timeout_s: float) -> int:
        left: int = self._producer.flush(timeout_s)
        return left

    def close(self) -> None:
        left = self.flush(FLUSH_S_MAX)
        self._is_closed = True
        self._polling.join()
        if left:
            raise SendFailed(f"{left} records were not written within {FLUSH_S_MAX:.0f} s; send them again")

    def _poll(self) -> None:
        while not self._is_closed:
            self._producer.poll(POLL_S)


class HttpSender:
    """Sends each record in a request of its own.  A request is not repeated if a broker may have received it."""

    IN_FLIGHT_MAX: Final = 1_000

    def __init__(self, api: ApiClient, loop: asyncio.AbstractEventLoop) -> None:
        self._api = api
        self._loop = loop
        self._in_flight: set[Future[Sent]] = set()

    def begin(self, record: NewRecord) -> "Future[Sent]":
        if len(self._in_flight) >= self.IN_FLIGHT_MAX:
            raise BufferError
        sent = asyncio.run_coroutine_threadsafe(self._send(record), self._loop)
        self._in_flight.add(sent)
        sent.add_done_callback(self._in_flight.discard)
        return sent

    async def _send(self, record: NewRecord) -> Sent:
        one: dict[str, object] = {
            "key": _content(record.key),
            "value": _content(record.value),
            "headers": [(name, _content(content)) for name, content in record.headers],
            "partition": record.partition,
            "timestamp": record.timestamp_ms,
        }
        path = f"/v1/topics/{quote(record.topic, safe='')}/records"
        try:
            response = await self._api.call("POST", path, {"records": [one]}, is_repeatable=False)
        except (RequestRefused, BrokersUnavailable) as problem:
            raise SendFailed(f"a record was not written to topic {record.topic}: {problem}") from problem
        (written,) = response["records"]
        return Sent(record.topic, written["partition"], written["offset"])

    def flush(self, timeout_s: float) -> int:
        waiting = [*self._in_flight]
        for sent in waiting:
            try:
                sent.exception(timeout_s)
            except TimeoutError:
                break
        return sum(not sent.done() for sent in waiting)

    def close(self) -> None:
        if left := self.flush(FLUSH_S_MAX):
            raise SendFailed(f"{left} records were not written within {FLUSH_S_MAX:.0f} s; send them again")


def _content(data: bytes | None) -> object:
    return None if data is None else {"base64": b64encode(data).decode()}
