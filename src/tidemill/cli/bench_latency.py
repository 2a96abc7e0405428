"""`tidemill bench latency`: how long it takes until a record is acknowledged, and until a consumer receives it."""

import os
import time
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tidemill.cli.bench_consume import consumer
from tidemill.cli.bench_load import BenchLoad, bench_topic
from tidemill.cli.bench_produce import QUEUE_FULL_POLL_S, Deliveries
from tidemill.cli.bench_report import Stopwatch, Timing, advance_bar, percentiles_ms, rates
from tidemill.cli.kafka import failed

LATE_MAX_S: Final = 30.0  # limits the wait for the consumer's start, and for late records after the last one was due
POLL_MAX_S: Final = 0.1  # seconds per poll; Ctrl-C takes effect after at most this time
TAG_BYTES: Final = 8  # distinguishes this run's records from others; eight bytes with the record's number follow


def measure_latency(load: BenchLoad, rate: float) -> dict[str, Any]:
    """Send the records of `load` at `rate` per second, and return the result."""
    with bench_topic(load) as topic:
        ends = topic.admin.offsets_of(topic.name, topic.partitions, OffsetSpec.latest())
        reader = consumer(load.bootstrap)
        try:
            reader.assign([TopicPartition(topic.name, partition, ends[partition]) for partition in topic.partitions])
            run = _Run(load, rate, topic.name, Producer(load.producer_config()), reader)
            timing = run.run()
        finally:
            reader.close()
    lost = run.sent - run.received - run.deliveries.failed
    received = len(run.end_to_end_s)
    return {
        "bench": "latency",
        "topic": topic.name,
        "is_temporary": topic.is_temporary,
        "partitions": len(topic.partitions),
        "rate": rate,
        **load.described(),
        "records": received,
        "failed": max(lost, 0) + run.deliveries.failed,
        "error": run.deliveries.error or (f"not received within {LATE_MAX_S:g} s" if lost > 0 else None),
        **rates(run.received, run.received * load.size, timing),
        "latency_ms": percentiles_ms(run.deliveries.latencies_s),
        "end_to_end_ms": percentiles_ms(run.end_to_end_s),
    }


class _Run:
    def __init__(self, load: BenchLoad, rate: float, topic: str, producer: Producer, reader: Any) -> None:
        self._load = load
        self._rate = rate
        self._topic = topic
        self._producer = producer
        self._reader = reader
        self._values = load.values()
        self._tag = os.urandom(TAG_BYTES)
        self._start = 0.0
        self.deliveries = Deliveries(load.records)
        self.end_to_end_s: list[float] = []
        self.sent = 0
        self.received = 0

    def run(self) -> Timing:
        """
        Send and receive until every record has arrived or failed, or LATE_MAX_S after the last one was due.  Return the
        time taken.
        """
        count = min(self._load.warm_up_records + self._load.records, max(1, int(self._load.seconds * self._rate)))
        self._await_start()
        stopwatch = Stopwatch()
        self._start = time.perf_counter()
        last_due = self._start + count / self._rate
        with advance_bar("sending", count) as advance:
            while self.received + self.deliveries.failed < count:
                now = time.perf_counter()
                if now > last_due + LATE_MAX_S:
                    break
                while self.sent < count and self._due(self.sent) <= now:
                    self._send()
                self._producer.poll(0)
                next_due = self._due(self.sent) if self.sent < count else now + POLL_MAX_S
                self._receive(min(max(next_due - time.perf_counter(), 0.0), POLL_MAX_S))
                advance(self.received)
            while self._producer.flush(POLL_MAX_S):  # the consumer may receive a record before it is acknowledged
                pass
        return stopwatch.read()

    def _await_start(self) -> None:
        """
        Wait until the consumer has reached the end of each partition, so that its start does not count as latency.
        """
        waited_for = len(self._reader.assignment())
        until = time.monotonic() + LATE_MAX_S
        while waited_for and time.monotonic() < until:
            message = self._reader.poll(POLL_MAX_S)
            if message is not None and message.error() is not None:
                if message.error().code() != KafkaError._PARTITION_EOF:
                    raise failed(message.error(), f"topic {self._topic!r}", self._load.bootstrap)
                waited_for -= 1

    def _due(self, number: int) -> float:
        return self._start + number / self._rate

    def _send(self) -> None:
        value = self._tag + self.sent.to_bytes(8, "big") + self._values[self.sent % len(self._values)][16:]
        is_warm_up = self.sent < self._load.warm_up_records
        try:
            self._producer.produce(
                self._topic, value, on_delivery=self._warmed if is_warm_up else self.deliveries.delivered
            )
        except BufferError:  # The client's queue is full: send the record later.
            self._producer.poll(QUEUE_FULL_POLL_S)
            return
        except KafkaException as exception:  # The client library refused the record.
            self.deliveries.delivered(exception.args[0], None)
        self.sent += 1

    def _warmed(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.deliveries.delivered(error, message)

    def _receive(self, timeout_s: float) -> None:
        message = self._reader.poll(timeout_s)
        if message is None:
            return
        now = time.perf_counter()
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise failed(error, f"topic {self._topic!r}", self._load.bootstrap)
            return
        value = message.value() or b""
        if value[:TAG_BYTES] != self._tag:
            return
        number = int.from_bytes(value[TAG_BYTES:16], "big")
        self.received += 1
        if number >= self._load.warm_up_records:
            self.end_to_end_s.append(now - self._due(number))
