"""
Clients of brokers that deliver messages later: Tidemill by librdkafka, NATS and beanstalkd over plain sockets.

The plain clients pipeline: they send many requests before they read the replies.  So the broker is measured, and not a
client library.  Every message is 100 bytes, and begins with when it is due, in ms since the epoch, and its number.
"""

import json
import random
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

MESSAGE_BYTES: Final = 100
DIGITS: Final = 13  # of a time in ms
NUMBER: Final = slice(DIGITS + 1, DIGITS + 10)
LOT: Final = 10_000  # records per call of the client library
QUEUED_RECORDS_MAX: Final = 200_000
WAIT_SECONDS_MAX: Final = 300.0
CHUNK: Final = 100  # messages per send of a plain client
CHUNKS_IN_FLIGHT: Final = 10
RESERVED: Final = 500  # requests for jobs that a client of beanstalkd keeps open


class TimerClient(Protocol):
    def create(self) -> None:
        """Create the topic, stream or tube."""
        ...

    def insert(self, dues: Sequence[int]) -> float:
        """Send a message for each due time, and return the seconds until the last acknowledgement."""
        ...

    def receive(self) -> Iterator[Sequence[bytes]]:
        """Yield the messages that come, in lots."""
        ...


def message(due_ms: int, number: int) -> bytes:
    return (b"%013d %09d" % (due_ms, number)).ljust(MESSAGE_BYTES, b"x")


def random_dues(first_ms: int, span_ms: int, count: int) -> list[int]:
    """Return due times at random, from `first_ms` on; all the same if the span is 0."""
    draw = random.Random(count).random
    return [first_ms + int(span_ms * draw()) for _ in range(count)]


class KafkaTimers:
    """A topic of kind timer, with one partition."""

    def __init__(self, address: str, topic: str) -> None:
        self._bootstrap = {"bootstrap.servers": address}
        self._topic = topic

    def create(self) -> None:
        admin = AdminClient(self._bootstrap)
        admin.create_topics([NewTopic(self._topic, 1, config={"tidemill.kind": "timer"})])[self._topic].result(30)

    def insert(self, dues: Sequence[int]) -> float:
        return self._produce(
            (message(due, number), None, [("tidemill-deliver-at", b"%d" % due)]) for number, due in enumerate(dues)
        )

    def insert_delayed(self, dues: Sequence[int]) -> float:
        """Send a message for each due time, with the delay until then, and return the seconds likewise."""
        now_ms = int(time.time() * 1_000)
        return self._produce(
            (message(due, number), None, [("tidemill-delay", b"%d" % (due - now_ms))])
            for number, due in enumerate(dues)
        )

    def insert_named(self, dues: Sequence[int]) -> float:
        """Insert timers with ids, so that they can be cancelled."""
        return self._produce(
            (message(due, number), b"%d" % number, [("tidemill-deliver-at", b"%d" % due), _timer_id(number)])
            for number, due in enumerate(dues)
        )

    def cancel(self, count: int) -> float:
        """Cancel the timers that `insert_named` has inserted."""
        return self._produce(
            (None, b"%d" % number, [_timer_id(number), ("tidemill-cancel", b"")]) for number in range(count)
        )

    def _produce(self, records: Iterable[tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]]) -> float:
        failures: list[KafkaError] = []
        configuration: dict[str, Any] = {
            **self._bootstrap,
            "acks": "all",
            "queue.buffering.max.messages": 2 * QUEUED_RECORDS_MAX,
            "queue.buffering.max.kbytes": 2_000_000,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failures.append(error),
        }
        producer = Producer(configuration)
        producer.list_topics(self._topic, timeout=30)
        send, topic = producer.produce, self._topic
        started = time.perf_counter()
        for number, (value, key, headers) in enumerate(records):
            send(topic, value, key, 0, headers=headers)
            if number % LOT == 0:
                producer.poll(0)
                while len(producer) > QUEUED_RECORDS_MAX:
                    producer.poll(0.005)
        left = producer.flush(WAIT_SECONDS_MAX)
        seconds = time.perf_counter() - started
        if left or failures:
            raise RuntimeError(f"{left} records unanswered, errors {failures[:3]}")
        return seconds

    def delivered(self) -> int:
        """Return the number of records that have been delivered."""
        consumer = Consumer({**self._bootstrap, "group.id": "benchmark"})
        _, high = consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=30)
        consumer.close()
        return int(high)

    def receive(self) -> Iterator[Sequence[bytes]]:
        consumer = Consumer({
            **self._bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.queue.backoff.ms": 1,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 20,
            "retry.backoff.ms": 10,
            "queued.min.messages": 10_000_000,
            "queued.max.messages.kbytes": 2_000_000,
            "log_level": 0,
        })  # fmt: skip
        consumer.assign([TopicPartition(self._topic, 0, 0)])
        while True:
            first = consumer.poll(1.0)
            found = [] if first is None else [first, *consumer.consume(LOT, timeout=0)]
            yield [content for it in found if (content := _content(it)) is not None]


def _timer_id(number: int) -> tuple[str, bytes]:
    return "tidemill-timer-id", b"timer-%d" % number


def _content(found: Message) -> bytes | None:
    error = found.error()
    if error is None:
        content: bytes = found.value() or b""
        return content
    if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
        return None  # the broker is restarted
    raise KafkaException(error)


class _Line:
    """A connection whose replies are lines."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), WAIT_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self.socket.makefile("rb", 1 << 20)
        self.line, self.read = self._file.readline, self._file.read

    def pipeline(self, chunks: Iterable[tuple[int, bytes]]) -> float:
        """
        Send chunks, each with the number of its requests, and return the seconds until the last reply.
        """
        open_chunks: list[int] = []
        started = time.perf_counter()
        for count, chunk in chunks:
            self.socket.sendall(chunk)
            open_chunks.append(count)
            if len(open_chunks) >= CHUNKS_IN_FLIGHT:
                for _ in range(open_chunks.pop(0)):
                    self.reply()
        for _ in range(sum(open_chunks)):
            self.reply()
        return time.perf_counter() - started

    def reply(self) -> None:
        """Read one reply.  Raise RuntimeError if it is an error."""
        raise NotImplementedError


class NatsTimers(_Line):
    """A stream with scheduled messages: each has its own subject, because a subject has one schedule."""

    def __init__(self, address: str, topic: str) -> None:
        super().__init__(address)
        self._topic = topic
        self.line()  # INFO
        self.socket.sendall(b'CONNECT {"verbose":false,"headers":true}\r\nSUB a 1\r\nPING\r\n')
        assert self.line() == b"PONG\r\n"

    def _ask(self, subject: str, request: dict[str, Any]) -> None:
        body = json.dumps(request).encode()
        self.socket.sendall(b"PUB $JS.API.%s a %d\r\n%s\r\n" % (subject.encode(), len(body), body))
        self.reply()

    def create(self) -> None:
        subjects = [f"{self._topic}.in.>", f"{self._topic}.out"]
        stream = {"name": self._topic, "subjects": subjects, "storage": "file", "allow_msg_schedules": True}
        self._ask(f"STREAM.CREATE.{self._topic}", stream)

    def reply(self) -> None:
        line = self.line()
        while line == b"PING\r\n":
            self.socket.sendall(b"PONG\r\n")
            line = self.line()
        answer = self.line() if line.startswith(b"MSG ") else line
        if not line.startswith(b"MSG ") or b'"error"' in answer:
            raise RuntimeError(f"NATS replied {answer!r}")

    def insert(self, dues: Sequence[int]) -> float:
        return self.pipeline(
            [
                (len(part), b"".join([self._publish(due, at + number) for number, due in enumerate(part)]))
                for at in range(0, len(dues), CHUNK)
                for part in [dues[at : at + CHUNK]]
            ]
        )

    def _publish(self, due_ms: int, number: int) -> bytes:
        at = datetime.fromtimestamp(due_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        head = f"NATS/1.0\r\nNats-Schedule: @at {at}.{due_ms % 1_000:03}Z\r\n"
        head += f"Nats-Schedule-Target: {self._topic}.out\r\n\r\n"
        size = len(head) + MESSAGE_BYTES
        start = f"HPUB {self._topic}.in.{number} a {len(head)} {size}\r\n{head}"
        return start.encode() + message(due_ms, number) + b"\r\n"

    def receive(self) -> Iterator[Sequence[bytes]]:
        self._ask(
            f"CONSUMER.CREATE.{self._topic}",
            {
                "stream_name": self._topic,
                "config": {"deliver_subject": "b", "ack_policy": "none", "filter_subject": f"{self._topic}.out"},
            },
        )
        self.socket.sendall(b"SUB b 2\r\n")
        self.socket.settimeout(WAIT_SECONDS_MAX)
        while True:
            line = self.line()
            if line.startswith(b"HMSG "):
                *_, head, size = line.split()
                yield [self.read(int(size) + 2)[int(head) : -2]]
            elif line == b"PING\r\n":
                self.socket.sendall(b"PONG\r\n")


class BeanstalkdTimers(_Line):
    """
    A tube.  beanstalkd delays by whole seconds, so a message is due whole seconds after it is sent, near to the time
    that is asked for.
    """

    def __init__(self, address: str, topic: str) -> None:
        super().__init__(address)
        self.socket.sendall(b"use %s\r\nwatch %s\r\nignore default\r\n" % (topic.encode(), topic.encode()))
        for _ in range(3):
            self.line()

    def create(self) -> None:
        """A tube exists when it is used."""

    def reply(self) -> None:
        line = self.line()
        if not line.startswith(b"INSERTED "):
            raise RuntimeError(f"beanstalkd replied {line!r}")

    def insert(self, dues: Sequence[int]) -> float:
        return self.pipeline(
            (len(part), b"".join([self._put(due, at + number, now_ms) for number, due in enumerate(part)]))
            for at in range(0, len(dues), CHUNK)
            for part, now_ms in [(dues[at : at + CHUNK], time.time() * 1_000)]
        )

    def _put(self, due_ms: int, number: int, now_ms: float) -> bytes:
        delay = max(round((due_ms - now_ms) / 1_000), 0)
        content = message(int(now_ms + 1_000 * delay), number)
        return b"put 0 %d 600 %d\r\n%s\r\n" % (delay, len(content), content)

    def receive(self) -> Iterator[Sequence[bytes]]:
        self.socket.sendall(b"reserve\r\n" * RESERVED)
        while True:
            line = self.line()
            if line.startswith(b"RESERVED "):
                _, job, size = line.split()
                content = self.read(int(size) + 2)[:-2]
                self.socket.sendall(b"delete %s\r\nreserve\r\n" % job)
                yield [content]


CLIENTS: dict[str, type[KafkaTimers | NatsTimers | BeanstalkdTimers]] = {
    "tidemill": KafkaTimers,
    "nats": NatsTimers,
    "beanstalkd": BeanstalkdTimers,
}
