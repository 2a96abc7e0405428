"""A reader, which records what a timer topic delivers, and when."""

import threading
import time
from array import array

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.fault.steady_load import PASSING, QUICK

LOT = 5_000
POLL_S = 0.2
REQUEST_MS_MAX = 1_500
STALE_ANSWER = "Partition log truncation detected"


class Deliveries(threading.Thread):
    """
    Reads all partitions from their beginning.  The columns have an item for each record, in the order of reading.

    librdkafka compares the end of an epoch that it has asked for with its position of later, so it takes a log for
    truncated if records of the next epoch come before the answer.  The reader then goes on at its position: were the
    log really truncated, the offset would be out of range, or other records would be lost or come twice.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name="deliveries", daemon=True)
        self.numbers = array("q")  # of the records: their values
        self.partitions = array("q")
        self.offsets = array("q")
        self.stamps_ms = array("q")  # append times of the brokers
        self.dues_ms = array("q")  # as the headers say
        self.arrivals = array("q")
        self.seen_ms = array("q")  # by the clock of this process
        self.is_stopping = False
        self.error: BaseException | None = None
        self._reader = Consumer({
            "bootstrap.servers": bootstrap,
            "group.id": "deliveries",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
            "socket.timeout.ms": REQUEST_MS_MAX,
            **QUICK,
        })  # fmt: skip
        self._topic = topic
        self._next_offsets = [0] * partitions
        self._reader.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])

    def __len__(self) -> int:
        return len(self.seen_ms)

    def run(self) -> None:
        try:
            while not self.is_stopping:
                self._read()
        except BaseException as error:
            self.error = error
            raise
        finally:
            self._reader.close()

    def _read(self) -> None:
        messages = self._reader.consume(LOT, timeout=POLL_S)
        now_ms = time.time_ns() // 1_000_000
        for message in messages:
            if message.error() is None:
                headers = dict(message.headers())
                self.numbers.append(int(message.value()))
                self.partitions.append(message.partition())
                self.offsets.append(message.offset())
                self.stamps_ms.append(message.timestamp()[1])
                self.dues_ms.append(int(headers["tidemill-deliver-at"]))
                self.arrivals.append(int(headers["tidemill-arrival"]))
                self.seen_ms.append(now_ms)
                self._next_offsets[message.partition()] = message.offset() + 1
            elif STALE_ANSWER in message.error().str():
                at = TopicPartition(self._topic, message.partition(), self._next_offsets[message.partition()])
                self._reader.seek(at)
            elif message.error().code() == KafkaError._AUTO_OFFSET_RESET or message.error().code() not in PASSING:
                raise KafkaException(message.error())
