"""
Idempotent producers and a reader, which run in a thread during all faults and record what happens and when.

Every partition receives a small, fixed number of records at regular intervals, so that any longer gap between
acknowledgements is caused by the cluster and not by the load.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType, TracebackType

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.fault.history import History, Read, Send, value_of

PACE_SECONDS = 0.1  # seconds between two sends to the same partition
LOT = 5  # records sent to a partition at a time, few enough for one batch
UNANSWERED_MAX = 3_000  # unacknowledged records of a partition, above which the load waits
REQUEST_MS_MAX = 1_500
WAIT_SECONDS_MAX = 90.0
QUICK: dict[str, str | int | float | bool] = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "log_level": 0,
}
Keys = Mapping[str, str | int | float | bool]
PASSING = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
}


class _Partition:
    """A producer's state for one partition."""

    __slots__ = ("next_at", "number", "unanswered")

    def __init__(self, number: int) -> None:
        self.number = number
        self.unanswered = 0
        self.next_at = 0.0


class _Producer:
    """Sends numbered values to its own partitions."""

    def __init__(self, number: int, load: "SteadyLoad", partitions: range) -> None:
        self.number = number
        self._load = load
        self._sequence = 0
        self.partitions = [_Partition(partition) for partition in partitions]
        self.client = Producer({
            "bootstrap.servers": load.bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 1,
            "message.timeout.ms": 600_000,
            # librdkafka waits this long before it repeats a request to a silent leader.
            "request.timeout.ms": REQUEST_MS_MAX,
            "socket.timeout.ms": REQUEST_MS_MAX,
            **QUICK,
            **load.keys,
            "error_cb": load.note,
        })  # fmt: skip

    def turn(self, now: float) -> None:
        for partition in self.partitions:
            if now >= partition.next_at and partition.unanswered <= UNANSWERED_MAX - LOT:
                partition.next_at = now + PACE_SECONDS
                for _ in range(LOT):
                    self._send_one(partition)
        self.client.poll(0)

    def _send_one(self, partition: _Partition) -> None:
        load = self._load
        place = len(load.history.sends)
        send = Send(self.number, self._sequence, partition.number)

        def answered(error: KafkaError | None, message: Message) -> None:
            partition.unanswered -= 1
            if error is None:
                load.history.sends[place] = replace(send, offset=message.offset())
                load.acknowledged_at[partition.number].append(time.monotonic())
            else:
                load.failures.append(f"{send}: {error}")

        load.history.sends.append(send)
        value = value_of(send.producer, send.sequence)
        self.client.produce(load.topic, value, partition=send.partition, on_delivery=answered)
        self._sequence += 1
        partition.unanswered += 1


class SteadyLoad:
    """Runs the load in a context manager.  The history is complete once `finish` has returned."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, *, producers: int = 2, keys: Keys = MappingProxyType({})
    ) -> None:
        """`keys` are additional configuration keys for the producers."""
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = range(partitions)
        self.keys = keys
        self.history = History()
        self.acknowledged_at: dict[int, list[float]] = defaultdict(list)  # by partition; seconds of `time.monotonic`
        self.failures: list[str] = []  # sends that failed in the client, of which a test expects none
        self.truncated: list[str] = []  # errors that show that the log lost records that had already been read
        self._producers = [_Producer(number, self, range(number, partitions, producers)) for number in range(producers)]
        self._reader = self._consumer()
        self._reader.assign([TopicPartition(topic, partition, 0) for partition in self.partitions])
        self._is_ending = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="steady load", daemon=True)

    def __enter__(self) -> "SteadyLoad":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._end()
        self._reader.close()

    def note(self, error: KafkaError) -> None:
        if error.fatal():
            self.failures.append(str(error))

    def wait_for_progress(self, *, seconds_max: float = WAIT_SECONDS_MAX) -> float:
        """Wait until every partition has a new acknowledgement, and return the current time."""
        since = {partition: len(self.acknowledged_at[partition]) for partition in self.partitions}
        deadline = time.monotonic() + seconds_max
        while waiting := [
            partition for partition, known in since.items() if len(self.acknowledged_at[partition]) == known
        ]:
            assert self._problem is None, self._problem
            assert time.monotonic() < deadline, f"nothing was acknowledged by {waiting} for {seconds_max:.0f} s"
            time.sleep(0.005)
        return time.monotonic()

    def run_for(self, seconds: float) -> None:
        """Let the load run for a while."""
        time.sleep(seconds)
        assert self._problem is None, self._problem

    def finish(self) -> History:
        """Wait until every send has been acknowledged, then read everything with a new consumer."""
        self._end()
        for producer in self._producers:
            left = producer.client.flush(WAIT_SECONDS_MAX)
            assert left == 0, f"{left} records were not acknowledged"
        assert not self.failures, self.failures[:5]
        self.history.final += read_all(self.bootstrap, self.topic, self.partitions)
        return self.history

    def _end(self) -> None:
        if self._thread.is_alive():
            self._is_ending.set()
            self._thread.join()
        if self._problem is not None:
            raise self._problem

    def _run(self) -> None:
        try:
            while not self._is_ending.is_set():
                for producer in self._producers:
                    producer.turn(time.monotonic())
                self._read()
        except BaseException as problem:  # re-raised in the thread of the test, which waits for this one
            self._problem = problem

    def _read(self) -> None:
        for message in self._reader.consume(500, timeout=0.005):
            if message.error() is None:
                self.history.reads.append(_read(message))
            elif message.error().code() == KafkaError._AUTO_OFFSET_RESET:
                self.truncated.append(str(message.error()))
            elif message.error().code() not in PASSING:
                raise KafkaException(message.error())

    def _consumer(self) -> Consumer:
        return consumer(self.bootstrap)


def consumer(bootstrap: str) -> Consumer:
    return Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": "steady-load",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 20,
        **QUICK,
    })  # fmt: skip


def read_all(bootstrap: str, topic: str, partitions: range, *, seconds_max: float = WAIT_SECONDS_MAX) -> list[Read]:
    """Read up to the current end offsets with a new consumer, which has no existing connection or position."""
    reader = consumer(bootstrap)
    found: list[Read] = []
    try:
        places = [TopicPartition(topic, partition, 0) for partition in partitions]
        deadline = time.monotonic() + seconds_max
        wanted = sum(_end_of(reader, place, deadline) for place in places)
        reader.assign(places)
        while len(found) < wanted:
            assert time.monotonic() < deadline, f"{len(found)} of {wanted} records were read at the end"
            for message in reader.consume(10_000, timeout=0.2):
                if message.error() is None:
                    found.append(_read(message))
                elif message.error().code() not in PASSING:
                    raise KafkaException(message.error())
    finally:
        reader.close()
    return found


def _end_of(reader: Consumer, place: TopicPartition, deadline: float) -> int:
    while True:
        try:
            end: int = reader.get_watermark_offsets(place, timeout=5)[1]
            return end
        except KafkaException as failure:
            if failure.args[0].code() not in PASSING or time.monotonic() > deadline:
                raise


def _read(message: Message) -> Read:
    return Read(message.partition(), message.offset(), message.value())
