"""
The client side of a case, in a separate process, so that both brokers get the same load.

`python -m benchmarks.workloads '{"do": "produce", "bootstrap": …}'` does one piece of work and prints one JSON line.
The client's own cost per record is kept small and equal: payloads and their dicts are created before the clock starts,
`consume` returns records in lots, and rates are measured without per-record callbacks.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

Outcome = dict[str, float]

LOT = 10_000  # records per call of the client library
QUEUED_RECORDS_MAX = 500_000  # the client's queue: large enough never to be empty, small enough for memory
WAIT_SECONDS_MAX = 120.0  # work without progress for this long has failed
REQUESTS_IN_FLIGHT = 64
LATENCY_RATE = 1_000  # records a second


def create_topic(*, bootstrap: str, topic: str, partitions: int, replication_factor: int = 1) -> Outcome:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, replication_factor)])[topic].result(30)
    return {}


def delete_topic(*, bootstrap: str, topic: str) -> Outcome:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # kept in a variable: its end would fail open requests
    admin.delete_topics([topic])[topic].result(30)
    return {}


def produce(
    *,
    bootstrap: str,
    topic: str,
    records: int,
    record_bytes: int,
    partitions: int,
    one_record_per_request: bool,
    by_lot: bool,
) -> Outcome:
    """
    Produce with acks=all, check the count by the end offsets, and return the records per second until the last
    acknowledgement.

    If records are passed one by one, as by applications, the client's queue stays short, and requests to many
    partitions stay small.  If they are passed in lots, the queue is long and every request has the maximum size.
    """
    failures: list[KafkaError] = []
    configuration: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "queue.buffering.max.messages": 2 * QUEUED_RECORDS_MAX,
        "queue.buffering.max.kbytes": 2_000_000,
        "delivery.report.only.error": True,
        "on_delivery": lambda error, _: failures.append(error),
        "error_cb": failures.append,
    }
    if one_record_per_request:
        configuration |= {
            "batch.num.messages": 1,
            "linger.ms": 0,
            "max.in.flight": REQUESTS_IN_FLIGHT,
            "enable.idempotence": False,
        }
    producer = Producer(configuration)
    producer.list_topics(topic, timeout=30)
    lot = [{"value": payload(index, record_bytes), "partition": index % partitions} for index in range(LOT)]
    pairs = [(payload(index, record_bytes), index % partitions) for index in range(LOT)]
    send = producer.produce
    started = time.perf_counter()
    sent = 0
    while sent < records:
        part = lot if records - sent >= LOT else lot[: records - sent]
        if by_lot:
            taken = producer.produce_batch(topic, part)
            if taken != len(part):
                raise RuntimeError(f"the client's queue took {taken} of {len(part)} records: {part[taken]}")
        else:
            for value, partition in pairs[: len(part)]:
                send(topic, value, partition=partition)
        sent += len(part)
        producer.poll(0)
        while len(producer) > QUEUED_RECORDS_MAX:
            producer.poll(0.005)
    left = producer.flush(WAIT_SECONDS_MAX)
    seconds = time.perf_counter() - started
    stored = sum(high for _, high in watermarks(bootstrap, topic))
    if left or failures or stored != records:
        raise RuntimeError(f"{records} records sent, {stored} stored, {left} unanswered, errors {failures[:3]}")
    return {"value": records / seconds, "seconds": seconds}


def consume(*, bootstrap: str, topic: str, records: int) -> Outcome:
    """
    Return the records per second from the first request to the last record, with settings that avoid librdkafka's
    back-off.
    """
    consumer = Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": "benchmark",
        "enable.auto.commit": False,
        "enable.partition.eof": False,
        "auto.offset.reset": "error",
        "fetch.queue.backoff.ms": 1,
        "queued.min.messages": 10_000_000,
        "queued.max.messages.kbytes": 2_000_000,
        "check.crcs": False,
    })  # fmt: skip
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    started = time.perf_counter()
    deadline = started + WAIT_SECONDS_MAX
    seen = 0
    while seen < records:
        lot = consumer.consume(LOT, timeout=1.0)
        if lot and (error := lot[-1].error()):
            raise KafkaException(error)
        seen += len(lot)
        if time.perf_counter() > deadline:
            raise RuntimeError(f"{seen} of {records} records came within {WAIT_SECONDS_MAX:.0f} s")
    seconds = time.perf_counter() - started
    consumer.close()
    return {"value": seen / seconds, "seconds": seconds}


def latency(*, bootstrap: str, topic: str, records: int, record_bytes: int, partitions: int) -> Outcome:
    """Measure the latency from `produce` to the acknowledgement's callback, at a steady rate without other load."""
    took: list[float] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    producer.list_topics(topic, timeout=30)
    value = payload(0, record_bytes)

    def answered(sent_at: float) -> Callable[[KafkaError | None, Message], None]:
        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            took.append(time.perf_counter() - sent_at)

        return on_delivery

    warm_up = LATENCY_RATE  # the first second opens connections and is not counted
    started = time.perf_counter()
    for index in range(records + warm_up):
        due = started + index / LATENCY_RATE
        while (left := due - time.perf_counter()) > 0:
            producer.poll(left)
        now = time.perf_counter()
        producer.produce(topic, value, partition=index % partitions, on_delivery=answered(now))
        producer.poll(0)
    producer.flush(WAIT_SECONDS_MAX)
    counted = sorted(took[warm_up:])
    quantiles = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    return {name: counted[int(len(counted) * share)] * 1_000 for name, share in quantiles.items()}


def first_acknowledged(*, bootstrap: str, topic: str) -> Outcome:
    """Return the monotonic time of the first acknowledgement by a broker that has not been started yet."""
    moments: list[float] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is None:
            moments.append(time.monotonic())

    producer = Producer({
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "linger.ms": 0,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 20,
        "retry.backoff.ms": 10,
        "topic.metadata.refresh.fast.interval.ms": 10,
        "topic.metadata.propagation.max.ms": 60_000,
        "log_level": 0,
    })  # fmt: skip
    print(json.dumps({"event": "ready"}), flush=True)
    producer.produce(topic, b"first", on_delivery=on_delivery)
    producer.flush(WAIT_SECONDS_MAX)
    if not moments:
        raise RuntimeError("no record was acknowledged")
    return {"moment": moments[0]}


def watermarks(bootstrap: str, topic: str) -> list[tuple[int, int]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "benchmark"})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    bounds = [_bounds(consumer, TopicPartition(topic, partition)) for partition in partitions]
    consumer.close()
    return bounds


def _bounds(consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
    # A leader may be known before it serves: for some partitions of a new topic, the client must retry.
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        try:
            low, high = consumer.get_watermark_offsets(partition, timeout=30)
            return low, high
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > deadline:
                raise
        time.sleep(0.05)  # between two attempts


def payload(index: int, record_bytes: int) -> bytes:
    """Return distinct payloads of the given length; there is no compression, so the content does not matter."""
    return (b"%012d" % index).ljust(record_bytes, b"abcdefghijklmnopqrstuvwxyz"[index % 26 : index % 26 + 1])


WORK: dict[str, Callable[..., Outcome]] = {
    work.__name__: work for work in (create_topic, delete_topic, produce, consume, latency, first_acknowledged)
}


def main() -> None:
    order = json.loads(sys.argv[1])
    print(json.dumps(WORK[order.pop("do")](**order)), flush=True)


if __name__ == "__main__":
    main()
