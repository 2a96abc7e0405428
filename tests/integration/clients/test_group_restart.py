"""A consumer group survives a restart of its coordinator's process."""

import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.broker import free_port
from benchmarks.tidemill_broker import TidemillBroker

TOPIC, GROUP = "flights", "readers"
PARTITIONS, RECORDS = 8, 300  # the test sets each record's partition: a partitioner may choose one for all
WAIT_SECONDS_MAX = 40.0


def start(directory: Path, port: int) -> TidemillBroker:
    broker = TidemillBroker(directory, port=port, settings={"group.initial.rebalance.delay.ms": 0})
    broker.wait_until_ready()
    return broker


def produce(bootstrap: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(TOPIC, b"%d" % value, partition=value % PARTITIONS)
    assert producer.flush(WAIT_SECONDS_MAX) == 0


def consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10_000,
        }
    )


def read(reader: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while len(values) < count and time.monotonic() < deadline:
        record = reader.poll(0.5)
        if record is not None and record.error() is None:
            values.append(record.value())
    return values


def test_a_member_continues_in_its_generation_after_the_broker_is_killed(tmp_path: Path) -> None:
    """
    After the only broker is killed with SIGKILL, the member keeps its partitions and its commits, and gets no record
    twice.
    """
    port = free_port()
    broker = start(tmp_path, port)
    produce(broker.bootstrap, range(RECORDS))
    reader = consumer(broker.bootstrap)
    assignments: list[int] = []
    reader.subscribe([TOPIC], on_assign=lambda _, partitions: assignments.append(len(partitions)))
    before = read(reader, RECORDS)
    reader.commit(asynchronous=False)
    broker.kill()

    broker = start(tmp_path, port)
    produce(broker.bootstrap, range(RECORDS, 2 * RECORDS))
    after = read(reader, RECORDS)
    committed = reader.committed(
        [TopicPartition(TOPIC, number) for number in range(PARTITIONS)], timeout=WAIT_SECONDS_MAX
    )
    reader.close()
    broker.stop()

    assert [{b"%d" % value for value in range(RECORDS)}, {b"%d" % value for value in range(RECORDS, 2 * RECORDS)}] == [
        set(before),
        set(after),
    ]
    assert (RECORDS, RECORDS, [PARTITIONS]) == (len(before), len(after), assignments)
    assert sum(partition.offset for partition in committed) == RECORDS
