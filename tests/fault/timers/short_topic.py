"""A timer topic with one partition, for tests in which few things happen: create it, produce to it, read it."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.fault.timers.deliveries import Deliveries

Headers = list[tuple[str, bytes]]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def create(bootstrap: str, name: str, *, replicas: int) -> None:
    topic = NewTopic(name, 1, replicas, config={"tidemill.kind": "timer"})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([topic])[name].result(30)


def produce(bootstrap: str, topic: str, records: Iterable[tuple[int, Headers]], **settings: int) -> list[str]:
    """Produce records with a number as value, in this order.  Return the names of the errors of those that failed."""
    failed: list[str] = []

    def answered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error.name())

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "max.in.flight": 1, **settings})
    for number, headers in records:
        while True:
            try:
                producer.produce(topic, b"%d" % number, partition=0, headers=headers, on_delivery=answered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(60) == 0
    return failed


def at(due_ms: int) -> Headers:
    return [("tidemill-deliver-at", b"%d" % due_ms)]


@contextmanager
def reading(bootstrap: str, topic: str) -> Iterator[Deliveries]:
    deliveries = Deliveries(bootstrap, topic, 1)
    deliveries.start()
    try:
        yield deliveries
    finally:
        deliveries.stop()
    assert deliveries.error is None
