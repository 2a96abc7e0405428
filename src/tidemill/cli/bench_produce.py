"""`tidemill bench produce`: how fast a broker acknowledges records."""

import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from tidemill.cli.bench_load import BenchLoad, bench_topic
from tidemill.cli.bench_report import Stopwatch, advance_bar, percentiles_ms, rates
from tidemill.cli.kafka import error_name

POLL_EVERY: Final = 64  # records sent between two checks of the clock and of acknowledgements
LATENCIES_MAX: Final = 1_000_000  # with more records, only every second, third, … latency is kept
QUEUE_FULL_POLL_S: Final = 0.1


class Deliveries:
    """Counts acknowledged and failed records, and keeps the latencies."""

    def __init__(self, records_max: int) -> None:
        self.acknowledged = 0
        self.failed = 0
        self.error: str | None = None  # the error of the first record that failed
        self.latencies_s: list[float] = []
        self._keep_every = -(-records_max // LATENCIES_MAX)

    def delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.failed += 1
            self.error = self.error or f"{error_name(error)}: {error.str()}"
            return
        self.acknowledged += 1
        if self.acknowledged % self._keep_every == 0:
            self.latencies_s.append(message.latency())


def measure_produce(load: BenchLoad) -> dict[str, Any]:
    """Send the records of `load`, and return the result."""
    with bench_topic(load) as topic:
        producer = Producer(load.producer_config())
        send(producer, topic.name, load, load.warm_up_records, Deliveries(load.warm_up_records or 1).delivered)
        deliveries = Deliveries(load.records)
        with advance_bar("producing", load.records) as advance:
            stopwatch = Stopwatch()
            send(producer, topic.name, load, load.records, deliveries.delivered, advance)
            timing = stopwatch.read()
    return {
        "bench": "produce",
        "topic": topic.name,
        "is_temporary": topic.is_temporary,
        "partitions": len(topic.partitions),
        **load.described(),
        "records": deliveries.acknowledged,
        "failed": deliveries.failed,
        "error": deliveries.error,
        **rates(deliveries.acknowledged, deliveries.acknowledged * load.size, timing),
        "latency_ms": percentiles_ms(deliveries.latencies_s),
    }


def send(
    producer: Producer,
    topic: str,
    load: BenchLoad,
    count: int,
    delivered: Callable[[KafkaError | None, Any], None],
    advance: Callable[[int], None] = lambda sent: None,
) -> int:
    """
    Send up to `count` records for at most `load.seconds`, wait for their acknowledgements, and return how many were
    sent.
    """
    values = load.values()
    end = time.monotonic() + load.seconds
    sent = 0
    while sent < count:
        try:
            producer.produce(topic, values[sent % len(values)], on_delivery=delivered)
        except BufferError:
            producer.poll(QUEUE_FULL_POLL_S)
        except KafkaException as exception:  # The client library refused the record.
            delivered(exception.args[0], None)
            break
        else:
            sent += 1
            if sent % POLL_EVERY:
                continue
            producer.poll(0)
            advance(sent)
        if time.monotonic() >= end:
            break
    while producer.flush(QUEUE_FULL_POLL_S):
        pass
    advance(sent)
    return sent
