"""Kills a broker at random moments while idempotent producers send, and restarts it on the same directory and port.

The producers retry every send until it is acknowledged, so the final read must contain all sends.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.tidemill_broker import TidemillBroker
from tests.fault.history import History, Read, Send, value_of

TOPIC = "kill-nine"
PARTITIONS = 4
PRODUCERS = 2
UNANSWERED_MAX = 2_000  # unacknowledged sends of one producer, so many that each kill hits requests in flight
LIFE_SECONDS = (0.02, 0.6)  # bounds of the random time from the first acknowledgement after a start to the kill
WAIT_SECONDS_MAX = 60.0


class KillableBroker(Protocol):
    bootstrap: str

    def wait_until_ready(self) -> None: ...

    def kill(self) -> None: ...

    def stop(self) -> None: ...


Start = Callable[[Path, int], KillableBroker]


def start_tidemill(directory: Path, port: int) -> KillableBroker:
    return TidemillBroker(directory, port=port)


def start_kafka(directory: Path, port: int) -> KillableBroker:
    """
    Start Apache Kafka, in order to test the harness itself.  Kafka relies on the page cache, which survives a killed
    process, so it must violate no invariant.
    """
    return ApacheKafka(directory, port=port or None)


@dataclass(slots=True)
class IdempotentProducer:
    """Sends numbered values to the partitions in turn, and records the outcome of each send."""

    number: int
    history: History
    client: Producer
    sequence: int = 0
    unanswered: int = 0
    acknowledged: int = 0

    def top_up(self, *, lot: int = 100) -> None:
        for _ in range(min(lot, UNANSWERED_MAX - self.unanswered)):
            self._send_one()
        self.client.poll(0)

    def _send_one(self) -> None:
        place = len(self.history.sends)
        send = Send(self.number, self.sequence, self.sequence % PARTITIONS)

        def answered(error: KafkaError | None, message: Message) -> None:
            self.unanswered -= 1
            if error is None:
                self.acknowledged += 1
                self.history.sends[place] = replace(send, offset=message.offset())

        self.history.sends.append(send)
        self.client.produce(
            TOPIC, value_of(send.producer, send.sequence), partition=send.partition, on_delivery=answered
        )
        self.sequence += 1
        self.unanswered += 1


class Scene:
    """One broker at a time on the same directory and port, and clients that keep running while the broker is down."""

    def __init__(self, directory: Path, start: Start, *, seed: int) -> None:
        self.history = History()
        self._directory = directory
        self._start = start
        self._random = random.Random(seed)
        self._fatal: list[str] = []
        self._broker = start(directory, 0)
        self._broker.wait_until_ready()
        self._port = int(self._broker.bootstrap.rpartition(":")[2])
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(WAIT_SECONDS_MAX)
        self._producers = [IdempotentProducer(number, self.history, self._producer()) for number in range(PRODUCERS)]
        self._reader = self._consumer()
        self._reader.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])

    def run(self, kills: int) -> History:
        try:
            for _ in range(kills):
                self._load_until_progress()
                self._load_for(self._random.uniform(*LIFE_SECONDS))
                self._broker.kill()
                self._load_for(self._random.uniform(0.0, 0.05))  # clients keep sending while there is no broker
                self._broker = self._start(self._directory, self._port)
                self._broker.wait_until_ready()
            self._load_until_progress()
            for producer in self._producers:
                left = producer.client.flush(WAIT_SECONDS_MAX)
                assert left == 0, f"{left} records were not acknowledged; client errors: {self._fatal}"
            self._read_to_the_end()
        finally:
            self._reader.close()
            self._broker.stop()
        assert not self._fatal, self._fatal
        return self.history

    def _load_until_progress(self) -> None:
        before = sum(producer.acknowledged for producer in self._producers)
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while sum(producer.acknowledged for producer in self._producers) == before:
            assert time.monotonic() < deadline, f"nothing was acknowledged; client errors: {self._fatal}"
            self._turn()

    def _load_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._turn()

    def _turn(self) -> None:
        for producer in self._producers:
            producer.top_up()
        for message in self._reader.consume(1_000, timeout=0.001):
            if message.error() is None:
                self.history.reads.append(_read(message))
            elif message.error().code() not in CONNECTION_ERRORS:
                raise KafkaException(message.error())

    def _read_to_the_end(self) -> None:
        """Read everything with a new consumer, which has no existing connection or position."""
        consumer = self._consumer()
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        wanted = sum(consumer.get_watermark_offsets(place, timeout=WAIT_SECONDS_MAX)[1] for place in places)
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while len(self.history.final) < wanted:
            assert time.monotonic() < deadline, f"{len(self.history.final)} of {wanted} records were read at the end"
            for message in consumer.consume(10_000, timeout=0.2):
                if message.error() is not None:
                    raise KafkaException(message.error())
                self.history.final.append(_read(message))
        consumer.close()

    def _producer(self) -> Producer:
        return Producer({
            "bootstrap.servers": f"127.0.0.1:{self._port}",
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 50,
            "message.timeout.ms": 600_000,
            "socket.timeout.ms": 5_000,
            **RECONNECT,
            "error_cb": self._note,
        })  # fmt: skip

    def _consumer(self) -> Consumer:
        return Consumer({
            "bootstrap.servers": f"127.0.0.1:{self._port}",
            "group.id": "kill-nine",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
            **RECONNECT,
        })  # fmt: skip

    def _note(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal.append(str(error))


RECONNECT: dict[str, str | int | float | bool] = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "log_level": 0,
}
CONNECTION_ERRORS = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT}


def _read(message: Message) -> Read:
    return Read(message.partition(), message.offset(), message.value())
