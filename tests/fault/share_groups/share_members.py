"""Members of a share group that treat their records at random, and what became of each record."""

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer
from confluent_kafka import TopicPartition as LibraryTopicPartition

REPOSITORY = Path(__file__).resolve().parents[3]
POLL_S = 0.3
RELEASED, REJECTED, SLOW = 0.08, 0.01, 0.05  # the fractions of records that are released and rejected, of slow polls
NO_EFFECT = ("INVALID_RECORD_STATE", "INVALID_REQUEST", "SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH")
"""Errors after which an acknowledgement has certainly not been applied."""
RecordId = tuple[int, int]  # partition, offset


class Ledger:
    """What the members were told about each record."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.accepted: Counter[RecordId] = Counter()  # confirmations of acceptances within the lock duration
        self.late: set[RecordId] = set()  # accepted or rejected, but possibly after the lock had expired
        self.rejected: set[RecordId] = set()  # the broker has confirmed it
        self.unknown: set[RecordId] = set()  # acknowledged at least once without a known outcome
        self.deliveries: Counter[RecordId] = Counter()
        self.counts: Counter[int] = Counter()  # deliveries by delivery count
        self.refusals: Counter[str] = Counter()

    def delivered(self, places: list[tuple[RecordId, int]]) -> None:
        with self._lock:
            for place, count in places:
                self.deliveries[place] += 1
                self.counts[count] += 1

    def acknowledged(self, decided: dict[RecordId, AcknowledgeType], refused: dict[int, str], is_late: bool) -> None:
        """
        Note the answers.  A broker also confirms a late answer about a record that the group has finished meanwhile.
        """
        with self._lock:
            self.refusals.update(refused.values())
            for place, kind in decided.items():
                if place[0] in refused:
                    if refused[place[0]] not in NO_EFFECT:
                        self.unknown.add(place)
                    continue
                if kind == AcknowledgeType.RELEASE:
                    continue
                if is_late:
                    self.late.add(place)
                elif kind == AcknowledgeType.ACCEPT:
                    self.accepted[place] += 1
                else:
                    self.rejected.add(place)


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
        self._ledger.delivered([((it.partition(), it.offset()), it.delivery_count()) for it in messages])
        if self._random.random() < SLOW:
            time.sleep(1.5 * self._lock_s)  # the locks expire meanwhile
        decided = {(it.partition(), it.offset()): self._choice() for it in messages}
        for (partition, offset), kind in decided.items():
            consumer.acknowledge_offset(self._topic, partition, offset, kind)
        try:
            outcomes = consumer.commit_sync(30)
        except KafkaException as failure:
            outcomes = {LibraryTopicPartition(self._topic, partition): failure for partition, _ in decided}
        refused = {place.partition: str(failure.args[0].name()) for place, failure in outcomes.items() if failure}
        self._ledger.acknowledged(decided, refused, is_late=time.monotonic() - began > self._lock_s / 2)

    def _choice(self) -> AcknowledgeType:
        drawn = self._random.random()
        if drawn < self._reject_share:
            return AcknowledgeType.REJECT
        return AcknowledgeType.RELEASE if drawn < self._reject_share + RELEASED else AcknowledgeType.ACCEPT


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
