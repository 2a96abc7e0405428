"""Numbered records of a topic, sent and read by a client of another library."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

_SECONDS_MAX: Final = 60.0
START_MS: Final = 1_357_034_400_000  # January 1, 2013


@dataclass(frozen=True, slots=True)
class Record:
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    settings = {"retention.ms": "-1"}  # the timestamps are old
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(_SECONDS_MAX)


def send_numbered(bootstrap: str, topic: str, start: int, count: int, partitions: int) -> None:
    """Send records with consecutive numbers; the number decides key, partition, time and headers."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
    failures: list[KafkaError] = []
    for number in range(start, start + count):
        producer.produce(
            topic,
            value=b"%010d" % number,
            key=b"key %d" % (number % 100),
            partition=number % partitions,
            timestamp=START_MS + number * 1_000,
            headers=[("number", b"%d" % number), ("number", None)] if number % 3 == 0 else None,
            on_delivery=lambda error, _: failures.append(error) if error is not None else None,
        )
        producer.poll(0)
    assert (0, []) == (producer.flush(_SECONDS_MAX), failures)


def read_all(bootstrap: str, topic: str, partitions: int) -> Iterator[Record]:
    """Yield all records of the topic."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True, "log_level": 0}
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        ended = 0
        while ended < partitions:
            messages = consumer.consume(5_000, timeout=_SECONDS_MAX)
            assert messages, f"{topic} has no end"
            for message in messages:
                error = message.error()
                if error is None:
                    headers = tuple((name, value) for name, value in message.headers() or ())
                    yield Record(
                        message.partition(),
                        message.offset(),
                        message.key(),
                        message.value(),
                        message.timestamp()[1],
                        headers,
                    )
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended += 1
    finally:
        consumer.close()
