"""Members of a share group that treat their records at random."""

import random
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer
from confluent_kafka import TopicPartition as LibraryTopicPartition

from tests.fault.share_groups.ledger import Ledger, RecordId
from tidemill.share.acknowledgement import Acknowledgement

REPOSITORY = Path(__file__).resolve().parents[3]
POLL_S = 0.3
RELEASED, REJECTED, SLOW = 0.08, 0.01, 0.05  # the fractions of records that are released and rejected, of slow polls


class Member(threading.Thread):
    """A thread with a share consumer."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        seed: int,
        ledger: Ledger,
        lock_s: float,
        reject_share: float = REJECTED,
    ) -> None:
        super().__init__(name=f"member {seed}", daemon=True)
        self._brokers = bootstrap
        self._group = group
        self._topic = topic
        self._random = random.Random(seed)
        self._ledger = ledger
        self._lock_s = lock_s
        self._reject_share = reject_share
        self.is_stopping = False
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            consumer = share_consumer(self._brokers, self._group, self._topic)
            while not self.is_stopping:
                self._treat(consumer)
            consumer.close()
        except BaseException as error:
            self.error = error
            raise

    def _treat(self, consumer: ShareConsumer) -> None:
        began = time.monotonic()
        try:
            messages = [message for message in consumer.poll(POLL_S) if message.error() is None]
        except KafkaException:  # a broker is away: the library connects again
            return
        if not messages:
            return
        counts: dict[RecordId, int] = {(it.partition(), it.offset()): it.delivery_count() for it in messages}
        self._ledger.delivered([*counts.items()])
        if self._random.random() < SLOW:
            time.sleep(1.5 * self._lock_s)  # the locks expire meanwhile
        decisions = {record: self._choice() for record in counts}
        self._ledger.decided(decisions, counts)
        for (partition, offset), kind in decisions.items():
            consumer.acknowledge_offset(self._topic, partition, offset, AcknowledgeType[kind.name])
        try:
            outcomes = consumer.commit_sync(30)
        except KafkaException as failure:
            outcomes = {LibraryTopicPartition(self._topic, partition): failure for partition, _ in decisions}
        is_late = time.monotonic() - began > self._lock_s / 2
        failures = {it.partition: str(failure.args[0].name()) for it, failure in outcomes.items() if failure}
        for partition, error in failures.items():
            self._ledger.refused([record for record in decisions if record[0] == partition], error)
        confirmed = {record: kind for record, kind in decisions.items() if record[0] not in failures}
        self._ledger.confirmed(confirmed, is_late=is_late)

    def _choice(self) -> Acknowledgement:
        drawn = self._random.random()
        if drawn < self._reject_share:
            return Acknowledgement.REJECT
        return Acknowledgement.RELEASE if drawn < self._reject_share + RELEASED else Acknowledgement.ACCEPT


def share_consumer(bootstrap: str, group: str, topic: str) -> ShareConsumer:
    consumer = ShareConsumer({
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "share.acknowledgement.mode": "explicit",
        "topic.metadata.refresh.interval.ms": 1_000,
        "reconnect.backoff.max.ms": 500,
        "log_level": 0,
    })  # fmt: skip
    consumer.subscribe([topic])
    return consumer


class DoomedMember:
    """A member in a process of its own, which acquires records, acknowledges none, and is killed."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        command = [sys.executable, "-m", "tests.fault.share_groups.share_members", bootstrap, group, topic]
        self._process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.acquired = int(self._process.stdout.readline() or "0")  # the number of records

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def main(bootstrap: str, group: str, topic: str) -> None:
    """Acquire records, print their number, and wait to be killed."""
    consumer = share_consumer(bootstrap, group, topic)
    deadline = time.monotonic() + 20
    acquired = 0
    while not acquired and time.monotonic() < deadline:
        with suppress(KafkaException):
            acquired = sum(message.error() is None for message in consumer.poll(POLL_S))
    print(acquired, flush=True)
    time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
