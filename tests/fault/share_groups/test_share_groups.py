"""Every record of a share group ends accepted or rejected, whatever happens to its members and brokers."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from benchmarks.tidemill_broker import TidemillBroker
from tests.fault.cluster_processes import ClusterProcesses
from tests.fault.extent import times
from tests.fault.share_groups.dead_letters import letters_of
from tests.fault.share_groups.share_lag import lag_of
from tests.fault.share_groups.share_members import REJECTED, DoomedMember, Ledger, Member, RecordId

PARTITIONS = 4
MEMBERS = 16
LOCK_MS = 2_000
LIMIT = 10  # deliveries; so many that hardly any record reaches it
DOOMED = 3  # members that are killed while they hold records
SETTINGS: dict[str, str | int] = {
    "group.share.min.record.lock.duration.ms": 1_000,
    "group.share.record.lock.duration.ms": LOCK_MS,
    "group.share.delivery.count.limit": LIMIT,
}


class Work:
    """A topic whose records a share group works off."""

    def __init__(
        self, bootstrap: str, *, replicas: int, reject_share: float = REJECTED, dead_letters: str = ""
    ) -> None:
        """`dead_letters` is the topic for dead letters, which is created; without it, there are none."""
        self.bootstrap = bootstrap
        self.topic = "work"
        self.group = "workers"
        self.ledger = Ledger()
        self.places: set[RecordId] = set()  # of all records
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = [NewTopic(self.topic, PARTITIONS, replicas)]
        settings = {"share.auto.offset.reset": "earliest"}
        if dead_letters:
            takes_letters = {"errors.deadletterqueue.group.enable": "true"}
            topics.append(NewTopic(dead_letters, PARTITIONS, replicas, config=takes_letters))
            settings["errors.deadletterqueue.topic.name"] = dead_letters
        for created in admin.create_topics(topics).values():
            created.result(30)
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.GROUP, self.group, incremental_configs=entries)
        admin.incremental_alter_configs([resource])[resource].result(30)
        self._members = [
            Member(bootstrap, self.group, self.topic, seed, self.ledger, LOCK_MS / 1_000, reject_share)
            for seed in range(MEMBERS)
        ]

    def produce(self, count: int) -> None:
        """Produce records, and wait until all are acknowledged."""
        before = len(self.places)
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5})
        for number in range(count):
            producer.produce(self.topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._produced)
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
        ledger = self.ledger
        deliveries = Counter(ledger.deliveries.values())
        left = self.places - ledger.accepted.keys() - ledger.late - ledger.rejected
        with capsys.disabled():
            print(
                f"\n{len(self.places)} records; records by number of deliveries: {dict(sorted(deliveries.items()))}; "
                f"{len(ledger.accepted)} accepted, {len(ledger.late)} late, {len(ledger.rejected)} rejected, "
                f"{len(left)} with an unknown outcome; refusals: {dict(ledger.refusals)}"
            )
        assert 0 == self.lag, f"{len(left)} records were neither accepted nor rejected"
        assert left <= ledger.unknown, f"{len(left - ledger.unknown)} records vanished"
        assert {1} == set(ledger.accepted.values()), "a record was accepted twice"
        assert not ledger.accepted.keys() & ledger.rejected
        assert max(ledger.counts) <= LIMIT


@pytest.mark.timeout(times(300, 3_600))
def test_every_record_is_accepted_or_rejected_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    16 members accept, release and reject 100,000 records at random, or are so slow that their locks expire; others are
    killed with what they hold.  Each record ends accepted or rejected, and the broker confirms that only once.
    """
    broker = TidemillBroker(tmp_path, settings=SETTINGS)
    try:
        broker.wait_until_ready()
        work = Work(broker.bootstrap, replicas=1)
        work.produce(100_000)
        doomed = [DoomedMember(broker.bootstrap, work.group, work.topic) for _ in range(DOOMED)]
        assert 0 < sum(member.acquired for member in doomed)

        def kill_one() -> bool:
            if doomed:
                doomed.pop().kill()
            return bool(doomed)

        work.work_off(kill_one, seconds=240)
        work.check(capsys)
        assert work.ledger.late or work.ledger.refusals["INVALID_RECORD_STATE"], "no member was slow"
    finally:
        broker.stop()


def kills(cluster: ClusterProcesses, work: Work, count: int, *, records: int, away_s: float) -> Callable[[], bool]:
    """
    Return a function that produces records and kills the next broker, which starts again after `away_s`.  It returns
    False when there have been `count` kills.
    """
    victims = iter([number % 3 + 1 for number in range(count)])

    def strike() -> bool:
        victim = next(victims, None)
        if victim is None:
            return False
        work.produce(records)
        cluster.kill(victim)
        time.sleep(away_s)
        cluster.start(victim)
        return True

    return strike


@pytest.mark.timeout(times(300, 3_600))
def test_nothing_is_lost_when_brokers_are_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Brokers are killed while the members work off records.  A record whose acceptance was confirmed is not delivered
    again, and so not accepted again.
    """
    with ClusterProcesses(tmp_path, settings=SETTINGS) as cluster:
        cluster.start_all()
        work = Work(cluster.bootstrap, replicas=3)
        work.work_off(kills(cluster, work, times(3, 20), records=5_000, away_s=1), seconds=times(240, 3_000))
        work.check(capsys)


@pytest.mark.timeout(times(120, 3_600))
def test_dead_letters_are_written_once_when_brokers_are_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Brokers are killed while members reject every fourth record.  Each rejected record has one letter in the dead-letter
    topic, and no other record has one.
    """
    with ClusterProcesses(tmp_path, settings=SETTINGS) as cluster:
        cluster.start_all()
        work = Work(cluster.bootstrap, replicas=3, reject_share=0.25, dead_letters="dlq.work")
        faults = times(2, 20)
        work.work_off(kills(cluster, work, faults, records=500, away_s=0.5), seconds=times(90, 3_000))
        work.check(capsys)
        letters = letters_of(cluster.bootstrap, "dlq.work")
        ledger = work.ledger
        with capsys.disabled():
            print(f"{letters.total()} letters; {len(ledger.rejected)} records rejected, faults: {faults}")
        assert {1} == {*letters.values()}, "a record has two letters"
        assert ledger.rejected - ledger.late <= letters.keys(), "a rejected record has no letter"
        # Late members, and those whose brokers were killed, do not know which of their decisions was applied.
        assert letters.keys() <= ledger.rejected | ledger.late | ledger.unknown | work.places - ledger.accepted.keys()
