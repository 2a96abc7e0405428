"""Numbered records of a topic, sent and read by a client of another library."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

_SECONDS_MAX: Final = 60.0
_KEYS: Final = 100
START_MS: Final = 1_357_034_400_000  # January 1, 2013, 10:00 UTC


@dataclass(frozen=True, slots=True)
class Record:
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


def create_topic(
    bootstrap: str, topic: str, partitions: int, configs: Mapping[str, str] = MappingProxyType({})
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    settings = {"retention.ms": "-1", **configs}  # no expiry, because the timestamps are old
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(_SECONDS_MAX)


def numbered(number: int) -> tuple[bytes, bytes, int, tuple[tuple[str, bytes | None], ...]]:
    """Return the key, value, timestamp in milliseconds, and headers of the record with this number."""
    headers = (("number", b"%d" % number), ("number", None)) if number % 3 == 0 else ()
    return b"key %d" % (number % _KEYS), b"%010d" % number, START_MS + number * 1_000, headers


def number_of(record: Record) -> int:
    """Return the number for which `numbered` made this record."""
    assert record.value is not None, record
    return int(record.value)


def send_numbered(bootstrap: str, topic: str, start: int, count: int, partitions: int) -> None:
    """Send `count` records with consecutive numbers.  The records of one key are in one partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
    failures: list[KafkaError] = []
    for number in range(start, start + count):
        key, value, timestamp_ms, headers = numbered(number)
        producer.produce(
            topic,
            value=value,
            key=key,
            partition=number % _KEYS % partitions,
            timestamp=timestamp_ms,
            headers=list(headers) or None,
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
            message = consumer.poll(_SECONDS_MAX)  # `consume` would wait for as many messages as it may return
            assert message is not None, f"{topic} has no end"
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


def end_offsets(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """Return the end offset of each partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 0})
    try:
        places = {number: TopicPartition(topic, number) for number in range(partitions)}
        return {number: consumer.get_watermark_offsets(place, _SECONDS_MAX)[1] for number, place in places.items()}
    finally:
        consumer.close()
