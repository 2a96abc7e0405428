"""A topic with records, and a share group whose members work them off."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.fault.share_groups.dead_letters import letters_of
from tests.fault.share_groups.ledger import Ledger, RecordId
from tests.fault.share_groups.lone_members import LoneMember
from tests.fault.share_groups.share_lag import lag_of
from tests.fault.share_groups.share_members import REJECTED, Member

PARTITIONS: Final = 4
MEMBERS: Final = 16
LONE: Final = 4  # of the members; these renew locks, which librdkafka's consumers do not
KEYS: Final = 2_000  # a multiple of PARTITIONS, so that a key has its records in one partition
LOCK_MS: Final = 2_000
LIMIT: Final = 10  # deliveries; so many that hardly any record reaches it
SETTINGS: Final[dict[str, str | int]] = {
    "group.share.min.record.lock.duration.ms": 1_000,
    "group.share.record.lock.duration.ms": LOCK_MS,
    "group.share.delivery.count.limit": LIMIT,
}
DEAD: Final = "dlq.work"


class Work:
    """A topic whose records a share group works off."""

    def __init__(
        self, bootstrap: str, *, replicas: int, reject_share: float = REJECTED, is_ordered: bool = False
    ) -> None:
        """Create the topic, one for dead letters, and the group, with an order by key if `is_ordered`."""
        self.bootstrap = bootstrap
        self.topic = "work"
        self.group = "workers"
        self.ledger = Ledger(LIMIT, KEYS // PARTITIONS if is_ordered else None)
        self.places: set[RecordId] = set()  # of all records
        admin = AdminClient({"bootstrap.servers": bootstrap})
        takes_letters = {"errors.deadletterqueue.group.enable": "true"}
        topics = [
            NewTopic(self.topic, PARTITIONS, replicas),
            NewTopic(DEAD, PARTITIONS, replicas, config=takes_letters),
        ]
        settings = {
            "share.auto.offset.reset": "earliest",
            "errors.deadletterqueue.topic.name": DEAD,
            "tidemill.share.order": "key" if is_ordered else "none",
        }
        for created in admin.create_topics(topics).values():
            created.result(30)
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.GROUP, self.group, incremental_configs=entries)
        admin.incremental_alter_configs([resource])[resource].result(30)
        lock_s = LOCK_MS / 1_000
        self._members: list[Member | LoneMember] = [
            LoneMember(bootstrap, self.group, self.topic, PARTITIONS, seed, self.ledger, lock_s) for seed in range(LONE)
        ]
        self._members += [
            Member(bootstrap, self.group, self.topic, seed, self.ledger, lock_s, reject_share)
            for seed in range(LONE, MEMBERS)
        ]

    def produce(self, count: int) -> None:
        """Produce records, and wait until all are acknowledged."""
        before = len(self.places)
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5})
        for number in range(before, before + count):
            producer.produce(
                self.topic,
                key=b"%d" % (number % KEYS),
                value=b"%d" % number,
                partition=number % PARTITIONS,
                on_delivery=self._produced,
            )
            if number % 1_000 == 0:
                producer.poll(0)
        assert producer.flush(60) == 0
        assert before + count == len(self.places)

    def _produced(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.places.add((message.partition(), message.offset()))

    def work_off(self, meanwhile: Callable[[], bool], seconds: float) -> None:
        """
        Let the members work until the broker reports that every record is finished.  `meanwhile` is called again and
        again, and returns whether more is to come.
        """
        for member in self._members:
            member.start()
        deadline = time.monotonic() + seconds
        while (meanwhile() or self.lag != 0) and time.monotonic() < deadline:
            assert [] == [member.error for member in self._members if member.error is not None]
            time.sleep(0.2)
        for member in self._members:
            member.is_stopping = True
        for member in self._members:
            member.join(30)

    @property
    def lag(self) -> int | None:
        return lag_of(self.bootstrap, self.group)

    def check(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Check what has become of each record, and that each dead one has one letter."""
        ledger = self.ledger
        letters = letters_of(self.bootstrap, DEAD)
        deliveries = Counter(ledger.deliveries.values())
        left = self.places - ledger.accepted.keys() - ledger.late - ledger.rejected
        with capsys.disabled():
            print(
                f"\n{len(self.places)} records; records by number of deliveries: {dict(sorted(deliveries.items()))}; "
                f"{len(ledger.accepted)} accepted, {len(ledger.late)} late, {len(ledger.rejected)} rejected, "
                f"{ledger.renewed} renewed, {letters.total()} letters, {len(left)} with an unknown outcome; "
                f"refusals: {dict(ledger.refusals)}"
            )
        assert 0 == self.lag, f"{len(left)} records were neither accepted nor rejected"
        assert left <= ledger.unknown | ledger.worn_out, f"{len(left - ledger.unknown)} records vanished"
        assert {1} == set(ledger.accepted.values()), "a record was accepted twice"
        assert not ledger.accepted.keys() & ledger.rejected
        assert max(ledger.counts) <= LIMIT
        assert [] == ledger.out_of_order
        assert ledger.renewed > 0
        assert {1} == set(letters.values()), "a record has two letters"
        assert ledger.rejected <= letters.keys(), "a rejected record has no letter"
        assert not letters.keys() & ledger.accepted.keys(), "an accepted record has a letter"
