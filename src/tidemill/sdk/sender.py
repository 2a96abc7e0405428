"""How the client sends records: by Kafka's protocol, or over HTTP where only that is known (`http_sender`)."""

from collections.abc import Mapping
from concurrent.futures import Future
from threading import Lock, Thread
from time import time
from typing import Any, Final, Protocol

import confluent_kafka

from tidemill.sdk.kafka_settings import created
from tidemill.sdk.problems import SendFailed
from tidemill.sdk.record import NewRecord, Sent
from tidemill.timer.schedule import BATCH_SCHEDULES_MAX
from tidemill.timer.timer_headers import HEADERS_MAX, PREFIX
from tidemill.timer.timer_problem import timer_problem

POLL_S: Final = 0.2  # how soon the thread notices that the sender is closed
FLUSH_S_MAX: Final = 60.0
HEADROOM_S: Final = 0.01  # how soon a full buffer is tried again
LINGER_MS: Final = 1
DEFAULTS: Final[Mapping[str, object]] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": LINGER_MS,  # a caller waits for each record
    "batch.num.messages": BATCH_SCHEDULES_MAX,  # each may be a schedule, and brokers refuse a batch with more
    "partitioner": "murmur2_random",  # as Java's producer and the HTTP API choose
}
OTHER_INVALID: Final = (
    "a broker has refused it, or another record of its batch: a reason may be tidemill.max.delay.ms of the topic, or "
    "the number of its schedules; connect with http= to be told the reason for each record"
)


def not_written(record: NewRecord, why: str) -> SendFailed:
    return SendFailed(f"a record was not written to topic {record.topic}: {why}")


class Sender(Protocol):
    def problem(self, record: NewRecord) -> str | None:
        """
        Return why a timer topic would refuse a record and, with it, other records; None if it would not, as far as the
        client knows.
        """
        ...

    def begin(self, record: NewRecord) -> "Future[Sent]":
        """
        Begin to send a record, from any thread.  The result is where it was written; the exception is SendFailed.

        Raise BufferError if too many records are on their way, and ValueError after `close`.
        """
        ...

    def flush(self, timeout_s: float) -> int:
        """Wait for the records that are on their way, in a thread without an event loop.  Return how many are left."""
        ...

    def close(self) -> None:
        """
        Wait for the records that are on their way, and begin no others.

        Raise SendFailed if some were not written in time; so do their futures.
        """
        ...


class KafkaSender:
    """Sends records with librdkafka: idempotent, in batches, acknowledged by a majority."""

    def __init__(self, settings: Mapping[str, object], timeout_s: float) -> None:
        """
        A record that is not written within `timeout_s` has failed, unless librdkafka's `settings` say otherwise.  Raise
        ValueError if it refuses them.
        """
        limit = {"delivery.timeout.ms": max(round(timeout_s * 1_000), LINGER_MS + 1)}
        self._producer = created(confluent_kafka.Producer, settings, {**DEFAULTS, **limit})
        self._lock = Lock()  # what is produced before `close` is waited for
        self._is_closed = False
        self._is_flushed = False
        self._polling = Thread(target=self._poll, name="tidemill-sender", daemon=True)
        self._polling.start()

    def problem(self, record: NewRecord) -> str | None:
        """Brokers refuse a batch whole, and librdkafka puts records of several callers into one."""
        headers = record.headers
        if not headers or not (len(headers) > HEADERS_MAX or any(name.startswith(PREFIX) for name, _ in headers)):
            return None
        return timer_problem(headers, round(time() * 1_000))

    def begin(self, record: NewRecord) -> "Future[Sent]":
        sent: Future[Sent] = Future()
        sent.set_running_or_notify_cancel()  # the record is written even if its caller does not wait

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                sent.set_result(Sent(record.topic, message.partition(), message.offset()))
            else:
                is_invalid = error.code() == confluent_kafka.KafkaError.INVALID_RECORD
                now_ms = round(time() * 1_000)
                why = (timer_problem(record.headers, now_ms) or OTHER_INVALID) if is_invalid else error.str()
                sent.set_exception(not_written(record, why))

        more: dict[str, int] = {} if record.partition is None else {"partition": record.partition}
        if record.timestamp_ms is not None:
            more["timestamp"] = record.timestamp_ms
        try:
            with self._lock:
                if self._is_closed:
                    raise ValueError("the client is closed")
                is_empty = not len(self._producer)
                self._producer.produce(
                    record.topic, record.value, record.key, headers=record.headers, on_delivery=delivered, **more
                )
        except BufferError:
            if is_empty:  # others would wait behind it, in vain
                raise not_written(record, "it is larger than queue.buffering.max.kbytes") from None
            raise
        except confluent_kafka.KafkaException as error:
            where = (
                f"topic {record.topic}"
                if record.partition is None
                else f"partition {record.partition} of {record.topic}"
            )
            raise SendFailed(f"a record was not written to {where}: {error.args[0].str()}") from error
        return sent

    def flush(self, timeout_s: float) -> int:
        left: int = self._producer.flush(timeout_s)
        return left

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        left = self.flush(FLUSH_S_MAX)
        if left:
            self._producer.purge()  # their futures fail, for which callers may wait
            self.flush(FLUSH_S_MAX)
        self._is_flushed = True
        self._polling.join()
        if left:
            raise SendFailed(f"{left} records were not written within {FLUSH_S_MAX:.0f} s; send them again")

    def _poll(self) -> None:
        while not self._is_flushed:
            self._producer.poll(POLL_S)
