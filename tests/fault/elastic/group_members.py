"""Members of a consumer group, which commit what they have read, and what must be true of their reads and commits.

A record may be delivered again only if its commit was not acknowledged.  No record is skipped.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.fault.cluster_processes import wait_until
from tests.fault.steady_load import PASSING, QUICK

MEMBERS = 2
COMMIT_SECONDS = 0.1  # between two commits of a member
END_SECONDS_MAX = 60.0  # for reading and committing the rest
NOT_NOW = {
    *PASSING,
    KafkaError._WAIT_COORD,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
"""Errors after which a member commits again later."""
REVOKED = {
    KafkaError._STATE,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.FENCED_INSTANCE_ID,
}
"""Errors after which the group has assigned the partitions anew: what was not committed is delivered again."""


class Delivery(NamedTuple):
    partition: int
    offset: int


class Commit(NamedTuple):
    """An acknowledged commit."""

    partition: int
    offset: int  # of the next record


class GroupMembers:
    """Runs the members in a context manager."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.topic = topic
        self.events: list[Delivery | Commit] = []  # of all members, in the order in which they saw them
        self.delivered_at: dict[int, list[float]] = defaultdict(list)  # by partition; seconds of `time.monotonic`
        self.committed: dict[int, int] = {}  # by partition: the last acknowledged commit
        self.assignments = 0  # how often a member was assigned partitions
        self.is_stopping = threading.Event()
        self._keys = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
            "metadata.recovery.strategy": "none",
            **QUICK,
        }
        self._members = [_Member(number, self, Consumer(self._keys)) for number in range(MEMBERS)]

    def __enter__(self) -> "GroupMembers":
        for member in self._members:
            member.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.is_stopping.set()
        for member in self._members:
            member.join()
        if error is None:
            self.check()

    def check(self) -> None:
        """Raise the error of a member, if one has failed."""
        for member in self._members:
            if member.error is not None:
                raise member.error

    def finish(self, ends: Mapping[int, int]) -> list[str]:
        """
        Wait until the group has committed everything up to the end offsets `ends`, and return what was wrong, as
        sentences.
        """

        def is_committed() -> bool:
            self.check()
            return self.committed == ends

        wait_until(is_committed, f"commits of {dict(ends)}", seconds_max=END_SECONDS_MAX)
        return [*violations(self.events), *self._kept(ends)]

    def _kept(self, ends: Mapping[int, int]) -> list[str]:
        """Compare the end offsets with what the coordinator says that the group has committed."""
        reader = Consumer(self._keys)
        try:
            kept = committed(reader, self.topic, ends)
        finally:
            reader.close()
        return [f"the group has committed {kept}, and not {dict(ends)}"] if kept != ends else []


class RestingGroup:
    """
    A group that commits once.  If a coordinator forgets commits, groups that go on commit again before it is noticed.
    """

    def __init__(self, bootstrap: str, topic: str, group: str, offsets: Mapping[int, int]) -> None:
        """Commit `offsets`, by partition."""
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, **QUICK,
        })  # fmt: skip
        self._topic = topic
        self._offsets = offsets
        places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]

        def is_done() -> bool:
            try:
                return all(it.error is None for it in self._consumer.commit(offsets=places, asynchronous=False))
            except KafkaException as failure:
                assert failure.args[0].code() in NOT_NOW, failure
                return False

        wait_until(is_done, "a commit")

    def check(self) -> None:
        """Assert that the coordinator still knows what was committed."""
        kept = committed(self._consumer, self._topic, self._offsets)
        assert kept == self._offsets, f"a group has committed {dict(self._offsets)}, and its coordinator knows {kept}"

    def close(self) -> None:
        self._consumer.close()


def committed(consumer: Consumer, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """Ask the coordinator of the consumer's group for committed offsets."""
    places = [TopicPartition(topic, partition) for partition in partitions]
    found: dict[int, int] = {}

    def is_told() -> bool:
        try:
            found.update({place.partition: place.offset for place in consumer.committed(places, timeout=5)})
        except KafkaException as failure:
            assert failure.args[0].code() in NOT_NOW, failure
        return bool(found)

    wait_until(is_told, "committed offsets")
    return found


class _Member(threading.Thread):
    def __init__(self, number: int, group: GroupMembers, consumer: Consumer) -> None:
        super().__init__(name=f"group member {number}", daemon=True)
        self._group = group
        self._consumer = consumer
        self._commit_at = 0.0
        self._due: dict[int, int] = {}  # by partition: the offset to commit
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._consumer.subscribe([self._group.topic], on_assign=self._assigned, on_revoke=self._revoked)
            while not self._group.is_stopping.is_set():
                self._read()
                self._commit()
            self._consumer.close()
        except BaseException as error:  # raised again in the thread of the test
            self.error = error

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._group.assignments += bool(partitions)

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for place in partitions:
            self._due.pop(place.partition, None)

    def _read(self) -> None:
        messages: list[Message] = self._consumer.consume(500, timeout=0.05)
        now = time.monotonic()
        for message in messages:
            error = message.error()
            if error is None:
                partition, offset = message.partition(), message.offset()
                self._group.events.append(Delivery(partition, offset))
                self._group.delivered_at[partition].append(now)
                self._due[partition] = offset + 1
            elif error.code() not in NOT_NOW:
                raise KafkaException(error)

    def _commit(self) -> None:
        now = time.monotonic()
        if not self._due or now < self._commit_at:
            return
        self._commit_at = now + COMMIT_SECONDS
        places = [TopicPartition(self._group.topic, partition, offset) for partition, offset in self._due.items()]
        try:
            outcome = self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as failure:
            code = failure.args[0].code()
            if code in REVOKED:
                self._due.clear()
            elif code not in NOT_NOW:
                raise
            return
        for place in outcome:
            if place.error is None:
                self._group.events.append(Commit(place.partition, place.offset))
                self._group.committed[place.partition] = place.offset
                if self._due.get(place.partition) == place.offset:
                    del self._due[place.partition]


def violations(events: list[Delivery | Commit]) -> list[str]:
    """Return what is wrong with the deliveries and commits of a group, as sentences."""
    found = []
    committed: dict[int, int] = defaultdict(int)
    expected: dict[int, int] = defaultdict(int)  # by partition: the offset after the last one delivered
    for event in events:
        partition, offset = event
        if isinstance(event, Commit):
            committed[partition] = max(committed[partition], offset)
            continue
        if offset < committed[partition]:
            found.append(f"{partition}@{offset} was delivered again, although {committed[partition]} was committed")
        if offset > expected[partition]:
            found.append(f"{partition}@{offset} was delivered, and {partition}@{expected[partition]} never was")
        expected[partition] = max(expected[partition], offset + 1)
    return found
