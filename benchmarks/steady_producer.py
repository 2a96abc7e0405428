"""
A producer at a steady rate in a process of its own, which tells when it has sent each record, and its latency.

    python -m benchmarks.steady_producer '{"bootstrap": …, "topic": …, "partitions": …}'

It prints `{"event": "ready"}` when every partition has acknowledged a record, and sends until its standard input ends.
Then it prints one line of JSON: `sent`, in seconds of the monotonic clock, which all processes share, and `took`, the
seconds until the acknowledgement.  It sends `RATE` records a second with acks=all, to all partitions in turn.
"""

import json
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from benchmarks.broker import cpu_seconds
from benchmarks.measure import REPOSITORY
from benchmarks.workloads import WAIT_SECONDS_MAX, payload

RATE = 1_000  # records a second
RECORD_BYTES = 1_000
POLL_SECONDS = 0.1  # a call that waits returns with the next acknowledgement
# Without these, librdkafka itself waits up to a second before it asks for the new leader of a partition.
QUICK: dict[str, str | int] = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "log_level": 0,
}


@dataclass(frozen=True, slots=True)
class Latencies:
    """What was measured of each record, in the order of the acknowledgements."""

    sent: Sequence[float]
    took: Sequence[float]

    def between(self, begin: float, end: float) -> list[float]:
        """Return the sorted latencies of the records that were sent in [begin, end)."""
        return sorted(took for sent, took in zip(self.sent, self.took, strict=True) if begin <= sent < end)


class SteadyProducer:
    """The process, for the benchmark that runs beside it."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        order = json.dumps({"bootstrap": bootstrap, "topic": topic, "partitions": partitions})
        command = [sys.executable, "-m", "benchmarks.steady_producer", order]
        self._process = subprocess.Popen(
            command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError("the producer ended before every partition had acknowledged a record")

    def cpu_seconds(self) -> float:
        return cpu_seconds(self._process.pid)

    def finish(self) -> Latencies:
        """End the producer when everything is acknowledged.  Raises RuntimeError if a record was not."""
        told, _ = self._process.communicate(timeout=WAIT_SECONDS_MAX)
        if self._process.returncode != 0:
            raise RuntimeError(f"the producer failed with exit code {self._process.returncode}; its error is above")
        return Latencies(**json.loads(told))

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def run(*, bootstrap: str, topic: str, partitions: int) -> dict[str, list[float]]:
    sent, took = array("d"), array("d")
    failures: list[KafkaError] = []
    is_over = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        is_over.set()

    def receive() -> None:
        # A second thread waits for acknowledgements: librdkafka waits whole milliseconds, and none if there is less.
        while not is_over.is_set():
            producer.poll(POLL_SECONDS)

    def answered(sent_at: float) -> Callable[[KafkaError | None, Message], None]:
        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)
                return
            sent.append(sent_at)
            took.append(time.monotonic() - sent_at)

        return on_delivery

    settings = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "enable.idempotence": True, **QUICK}
    producer = Producer(settings)
    value = payload(0, RECORD_BYTES)
    for partition in range(partitions):
        producer.produce(topic, value, partition=partition, on_delivery=answered(time.monotonic()))
    if producer.flush(WAIT_SECONDS_MAX) or failures:
        raise KafkaException(*failures[:1])
    print(json.dumps({"event": "ready"}), flush=True)
    receiver = threading.Thread(target=receive)
    receiver.start()
    threading.Thread(target=wait_for_the_end, daemon=True).start()
    started, number = time.monotonic(), 0
    while not is_over.is_set():
        if (left := started + number / RATE - time.monotonic()) > 0:
            time.sleep(left)
        producer.produce(topic, value, partition=number % partitions, on_delivery=answered(time.monotonic()))
        number += 1
    receiver.join()
    if (unanswered := producer.flush(WAIT_SECONDS_MAX)) or failures:
        raise RuntimeError(f"{unanswered} records unanswered, {len(failures)} failed: {failures[:1]}")
    return {"sent": list(sent), "took": list(took)}


def main() -> None:
    order: dict[str, Any] = json.loads(sys.argv[1])
    print(json.dumps(run(**order)), flush=True)


if __name__ == "__main__":
    main()
