"""The writer of Arrow rows with a real broker, read back with confluent-kafka."""

import random
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from tests.integration.clients.conftest import RunningBroker, RunningCluster
from tidemill.client import connection_settings
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.offset_lookup import LATEST, look_up
from tidemill.columnar import producer_pool, sink_options
from tidemill.columnar.topic_writer import TopicWriter, WriteSummary
from tidemill.model.partition import TopicPartition

pa = pytest.importorskip("pyarrow", reason="extra 'spark' is not installed")

SECONDS_MAX = 30


@pytest.fixture(autouse=True, scope="module")
def _producers() -> Iterator[None]:
    yield
    producer_pool.close_all()


def new_topic(bootstrap: str, partitions: int, replicas: int = 1, **config: str) -> str:
    topic = f"writer-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    settings = {"retention.ms": "-1", **config}  # tests write old timestamps
    admin.create_topics([NewTopic(topic, partitions, replicas, config=settings)])[topic].result(SECONDS_MAX)
    return topic


def read(bootstrap: str, topic: str, partitions: int, count: int) -> dict[int, list[Message]]:
    """Return `count` messages by partition, and check that there are no more."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.assign([KafkaPartition(topic, number, 0) for number in range(partitions)])
    found: dict[int, list[Message]] = {number: [] for number in range(partitions)}
    left = count
    try:
        while left > 0:
            messages = consumer.consume(min(left, 10_000), SECONDS_MAX)
            assert messages, f"{left} of {count} messages are missing"
            for message in messages:
                assert message.error() is None, message.error()
                found[message.partition()].append(message)
            left -= len(messages)
    finally:
        consumer.close()
    cluster = ClusterMetadata(connection_settings.from_keys({"bootstrap.servers": bootstrap}))
    try:
        cluster.refresh([topic])
        ends = look_up(cluster, {TopicPartition(topic, number): LATEST for number in range(partitions)})
    finally:
        cluster.close()
    assert count == sum(ends.values())
    return found


def write(bootstrap: str, topic: str | None, batches: Sequence[Any], **keys: str) -> WriteSummary:
    named = {f"kafka.{key.replace('_', '.')}": value for key, value in keys.items()}
    chosen = {} if topic is None else {"topic": topic}
    options = sink_options.parse({"kafka.bootstrap.servers": bootstrap, **chosen, **named})
    with TopicWriter(options, batches[0].schema) as writer:
        for rows in batches:
            writer.write(rows)
        return writer.flush()


def test_keys_go_to_the_partitions_that_other_producers_choose(broker: RunningBroker) -> None:
    """librdkafka's `murmur2_random`, which is Java's partitioner, sends each key to the same partition."""
    chance = random.Random(23)
    keys = [chance.randbytes(chance.randrange(1, 40)) for _ in range(500)]
    ours, theirs = new_topic(broker.bootstrap, 7), new_topic(broker.bootstrap, 7)
    write(broker.bootstrap, ours, [pa.record_batch({"key": keys, "value": keys})])
    producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(theirs, key=key, value=key)
    assert 0 == producer.flush(SECONDS_MAX)

    def keys_in(topic: str) -> dict[int, list[bytes]]:
        found = read(broker.bootstrap, topic, 7, len(keys))
        return {number: [message.key() for message in messages] for number, messages in found.items()}

    assert keys_in(theirs) == keys_in(ours)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_arrive_as_they_were_written(broker: RunningBroker, codec: str) -> None:
    """Every column and every kind of null arrives, in batches that other clients can decompress."""
    count = 2_000
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = pa.record_batch(
        {
            "key": pa.array([None if n % 5 == 0 else f"k{n % 50}" for n in range(count)]),
            "value": pa.array([None if n % 7 == 0 else b"value %d " % n * (n % 9) for n in range(count)], pa.binary()),
            "partition": pa.array([n % 3 for n in range(count)], pa.int32()),
            "timestamp": pa.array([1_357_034_400_000 + n for n in range(count)], pa.timestamp("ms")),
            "headers": pa.array(
                [
                    None if n % 2 else [{"key": "n", "value": b"%d" % n}, {"key": "e", "value": None}]
                    for n in range(count)
                ],
                headers,
            ),
        }
    )
    topic = new_topic(broker.bootstrap, 3)

    summary = write(broker.bootstrap, topic, [rows], compression_type=codec)

    assert (count, {TopicPartition(topic, n): (0, (count + 2 - n) // 3) for n in range(3)}) == (
        summary.records,
        summary.offsets,
    )
    wanted = rows.to_pylist()
    for number, messages in read(broker.bootstrap, topic, 3, count).items():
        expected = [row for row in wanted if row["partition"] == number]
        for row, message in zip(expected, messages, strict=True):
            assert (row["key"].encode() if row["key"] else None, row["value"]) == (message.key(), message.value())
            assert int(row["timestamp"].timestamp() * 1_000 + 0.5) == message.timestamp()[1]
            assert [(h["key"], h["value"]) for h in row["headers"] or ()] == (message.headers() or [])


def test_the_topic_of_each_row_and_small_batches(broker: RunningBroker) -> None:
    """Rows of several topics are written together; a small `max.message.bytes` leads to small batches."""
    topics = [new_topic(broker.bootstrap, 2, **{"max.message.bytes": "2000"}), new_topic(broker.bootstrap, 1)]
    rows = pa.record_batch(
        {
            "topic": [topics[n % 2] for n in range(600)],
            "value": [f"{n:0100}" for n in range(600)],
            "partition": [0] * 600,
        }
    )

    write(broker.bootstrap, None, [rows])

    for index, topic in enumerate(topics):
        found = read(broker.bootstrap, topic, 2 - index, 300)[0]
        assert [b"%0100d" % n for n in range(600) if n % 2 == index] == [message.value() for message in found]


def test_a_limit_that_was_lowered_meanwhile_divides_batches(broker: RunningBroker) -> None:
    """If the limit is lowered after the writer has read it, the broker refuses larger batches; the producer splits and
    resends them.
    """
    topic = new_topic(broker.bootstrap, 1)
    rows = pa.record_batch({"value": [f"{n:0100}" for n in range(300)]})
    options = sink_options.parse({"kafka.bootstrap.servers": broker.bootstrap, "topic": topic})
    with TopicWriter(options, rows.schema) as writer:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        entry = ConfigEntry("max.message.bytes", "4000", incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([change])[change].result(SECONDS_MAX)
        writer.write(rows)
        writer.flush()

    found = read(broker.bootstrap, topic, 1, 300)[0]
    assert [b"%0100d" % n for n in range(300)] == [message.value() for message in found]


def test_rows_are_neither_lost_nor_duplicated_while_leaders_move(cluster: RunningCluster) -> None:
    """Each row is stored exactly once even though three brokers transfer the leadership of all shards every two
    seconds.
    """
    topic = new_topic(cluster.bootstrap, 4, replicas=3)
    options = sink_options.parse({"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic})
    before, count = cluster.mover.rounds, 0
    schema = pa.schema({"key": pa.string(), "value": pa.string()})
    with TopicWriter(options, schema) as writer:
        while cluster.mover.rounds < before + 3:
            numbers = range(count, count + 200)
            writer.write(pa.record_batch({"key": [f"{n % 16}" for n in numbers], "value": [f"{n}" for n in numbers]}))
            count += 200
            if count % 1_000 == 0:
                assert count == writer.flush().records

    with cluster.mover.still():
        found = read(cluster.bootstrap, topic, 4, count)
    by_key: dict[bytes, list[int]] = {}
    for messages in found.values():
        for message in messages:
            by_key.setdefault(message.key(), []).append(int(message.value()))
    assert {b"%d" % key: list(range(key, count, 16)) for key in range(16)} == by_key
