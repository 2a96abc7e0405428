"""Reads a timer topic in a process of its own, in which no other thread delays the reader's clock."""

import time
import traceback
from array import array
from multiprocessing.connection import Connection

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.fault.steady_load import PASSING, QUICK

LOT = 1_000
POLL_S = 0.01  # for which the client gathers records before it returns fewer than a lot
REQUEST_MS_MAX = 1_500
STALE_ANSWER = "Partition log truncation detected"
COLUMNS = 7

Lot = tuple["array[int]", ...]  # numbers, partitions, offsets, stamps, due times, arrivals and times of reading


def send_all(to: Connection, bootstrap: str, topic: str, partitions: int) -> None:
    """Send what is delivered, lot by lot, until the other end sends something.  If that fails, send why."""
    try:
        reader = _Reader(bootstrap, topic, partitions)
        try:
            while not to.poll():
                lot = reader.read()
                if lot[0]:
                    to.send(lot)
            to.recv()  # a connection that is closed with something unread loses what was sent
        finally:
            reader.close()
    except Exception:
        to.send(traceback.format_exc())


class _Reader:
    """
    Reads all partitions from their beginning.

    librdkafka compares the end of an epoch that it has asked for with its position of later, so it takes a log for
    truncated if records of the next epoch come before the answer.  The reader then goes on at its position: were the
    log really truncated, the offset would be out of range, or other records would be lost or come twice.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap,
            "group.id": "deliveries",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
            "fetch.error.backoff.ms": 10,  # as the writes that measure a failover: see `served_times`
            "socket.timeout.ms": REQUEST_MS_MAX,
            **QUICK,
        })  # fmt: skip
        self._topic = topic
        self._next_offsets = [0] * partitions
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])

    def close(self) -> None:
        self._consumer.close()

    def read(self) -> Lot:
        """Return the next records, if any come soon."""
        messages = self._consumer.consume(LOT, timeout=POLL_S)
        now_ms = time.time_ns() // 1_000_000
        lot = tuple(array("q") for _ in range(COLUMNS))
        for message in messages:
            if message.error() is None:
                headers = dict(message.headers())
                due_ms, arrival = int(headers["tidemill-deliver-at"]), int(headers["tidemill-arrival"])
                partition, offset, stamp_ms = message.partition(), message.offset(), message.timestamp()[1]
                row = int(message.value()), partition, offset, stamp_ms, due_ms, arrival, now_ms
                for column, value in zip(lot, row, strict=True):
                    column.append(value)
                self._next_offsets[partition] = offset + 1
            elif STALE_ANSWER in message.error().str():
                at = TopicPartition(self._topic, message.partition(), self._next_offsets[message.partition()])
                self._consumer.seek(at)
            elif message.error().code() == KafkaError._AUTO_OFFSET_RESET or message.error().code() not in PASSING:
                raise KafkaException(message.error())
        return lot
