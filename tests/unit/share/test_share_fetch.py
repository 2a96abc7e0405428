"""
Share sessions, waiting fetches, acquisition and locks together: a leader of two partitions and three members of a
group.
"""

import random
from dataclasses import dataclass, field

import pytest

from tests.unit.share.test_acquisition import PRODUCER, batch
from tidemill.batches.batch import spans
from tidemill.model.back_off import BackOff, Growth
from tidemill.model.errors import KafkaError
from tidemill.model.topic import TopicId
from tidemill.share.acknowledgement import AcknowledgedRange, Acknowledgement, AcknowledgementRefused
from tidemill.share.acquisition import AbortedRecords, BatchesRead, FetchLimits
from tidemill.share.claim import Acquired
from tidemill.share.leases import Leases
from tidemill.share.record_status import Run
from tidemill.share.share import Share
from tidemill.share.share_session import PartitionKey, ShareSession, ShareSessions
from tidemill.share.share_settings import ShareSettings
from tidemill.share.share_waiters import ShareWaiters

KEYS: list[PartitionKey] = [(TopicId(b"t" * 16), number) for number in range(2)]
SETTINGS = ShareSettings(
    lock_ms=100, delivery_limit=4, locks_max=12, back_off=BackOff(growth=Growth.LINEAR, first_ms=20, step_ms=30)
)


class SharePartition:
    """A partition with the share of the group, and the rows that are not committed."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.data: set[int] = set()  # the offsets that consumers must process
        self.end = 0
        self.share = Share(number=1, group="g", incarnation=1, state_epoch=0, start=0)
        self.rows: list[list[Run]] = []
        self.accepted: set[int] = set()  # offsets whose acceptance is committed
        self.holders: dict[int, str] = {}  # the member that holds each offset, as far as the members know
        self.lead()

    def lead(self) -> None:
        """Begin to lead.  Only the share survives from the previous leader's term."""
        self.leases = Leases(self.share, SETTINGS, lambda: 0.0)
        self.counts: dict[int, int] = {}
        self.holders.clear()
        self.rows.clear()

    def append(self, length: int, kind: str) -> None:
        self.log.append(batch(self.end, self.end + length, kind))
        if kind == "data":
            self.data |= set(range(self.end, self.end + length))
        self.end += length

    def read(self, wall: int) -> BatchesRead:
        """Return up to three batches, beginning with the batch of the first available record."""
        found = self.leases.next_available(0, self.end, wall)
        parts = [part for part in self.log if found and next(spans(part)).header.end_offset > found.first][:3]
        return BatchesRead(parts, self.end, [AbortedRecords(PRODUCER, 0, 1 << 40)])


@dataclass
class Fetch:
    session: ShareSession
    connection: int
    deadline: int
    reads: dict[int, BatchesRead] = field(default_factory=dict)


@dataclass
class Answer:
    """A response with acquired records that is on its way to a member."""

    connection: int
    member: str
    acquired: dict[int, list[Acquired]]


class Leader:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 0
        self.partitions = [SharePartition() for _ in KEYS]
        self.sessions = ShareSessions(sessions_max=3)
        self.waiters: ShareWaiters[int, int] = ShareWaiters()
        self.fetches: dict[int, Fetch] = {}
        self.reading: list[int] = []
        self.answers: list[Answer] = []
        self.fetch_count = 0
        self.clients = {member: (number, 0) for number, member in enumerate("abc")}  # connection, next session epoch
        self.connection_count = len(self.clients)

    # What the broker does.

    def evaluate(self, woken: list[int]) -> None:
        for name in woken:
            self.reading.append(name)
            fetch = self.fetches[name]
            fetch.reads = {key[1]: self.partitions[key[1]].read(self.now) for key in fetch.session.rotated()}

    def wake(self, number: int) -> None:
        self.evaluate(self.waiters.wake(number))

    def propose(self, number: int, decided: list[Run]) -> None:
        if decided:
            self.partitions[number].rows.append(decided)

    def end_evaluation(self, name: int) -> None:
        self.reading.remove(name)
        fetch = self.fetches[name]
        leases = {number: self.partitions[number].leases for number in fetch.reads}
        for number, read in fetch.reads.items():
            self.propose(number, read.archive(leases[number]))
        found = sum(read.available_bytes(leases[number], self.now, 1 << 30) for number, read in fetch.reads.items())
        is_answered = found > 0 or self.now >= fetch.deadline or not fetch.session.is_open
        if is_answered:
            self.answer(self.fetches.pop(name))
        left = {
            number
            for number, partition in enumerate(self.partitions)
            if partition.leases.lock_room > 0 and partition.leases.next_available(0, partition.end, self.now)
        }
        self.evaluate(self.waiters.finish(name, left) if is_answered else self.waiters.keep_waiting(name, left))

    def answer(self, fetch: Fetch) -> None:
        member, room = fetch.session.member, 6
        acquired: dict[int, list[Acquired]] = {}
        for number, read in fetch.reads.items() if fetch.session.is_open else ():
            partition = self.partitions[number]
            limits = FetchLimits(room, 4, self.chance.random() < 0.5)
            got = read.acquire(partition.leases, member, limits, now=self.now, wall=self.now)
            acquired[number] = got.acquired
            bounds = [(span.header.base_offset, span.header.end_offset) for span in spans(b"".join(got.records))]
            sent = {offset for first, end in bounds for offset in range(first, end)}
            for offset, count in ((o, one.delivery_count) for one in got.acquired for o in range(one.first, one.end)):
                assert offset in sent & partition.data, "an acquired record is in the bytes, and has data"
                assert offset not in partition.accepted, "a record is not delivered after its acceptance"
                assert offset not in partition.holders, "a record has one holder"
                assert count > partition.counts.get(offset, 0), "the count does not fall"
                partition.holders[offset] = member
                room -= 1
            assert partition.leases.held_count == len(partition.holders) <= SETTINGS.locks_max
        self.answers.append(Answer(fetch.connection, member, acquired))

    def disconnect(self, connection: int) -> None:
        for name in [name for name, fetch in self.fetches.items() if fetch.connection == connection]:
            if name in self.reading:
                self.reading.remove(name)
            del self.fetches[name]
            self.evaluate(self.waiters.leave(name))
        for answer in [answer for answer in self.answers if answer.connection == connection]:
            self.answers.remove(answer)
            for number, acquired in answer.acquired.items():
                self.partitions[number].leases.undo(acquired)
                for one in acquired:
                    for offset in range(one.first, one.end):
                        if self.partitions[number].holders.get(offset) == answer.member:
                            del self.partitions[number].holders[offset]
                self.wake(number)
        for session in self.sessions.disconnected(connection):
            for _, number in session.used:
                self.release(number, self.partitions[number].leases.leave(session.member))

    def release(self, number: int, decided: list[Run]) -> None:
        partition = self.partitions[number]
        for run in decided:
            for offset in range(run.first, run.end):
                del partition.holders[offset]
                partition.counts[offset] = run.value.delivery_count
        self.propose(number, decided)
        if decided:
            self.wake(number)

    def commit(self, number: int) -> None:
        partition = self.partitions[number]
        runs = partition.rows.pop(0)
        partition.share.set_runs(runs)
        partition.leases.committed(runs)
        accepted = [run for run in runs if run.value.state == 2]
        partition.accepted |= {offset for run in accepted for offset in range(run.first, run.end)}
        self.wake(number)

    def pass_time(self, duration: int) -> None:
        self.now += duration
        for number, partition in enumerate(self.partitions):
            is_due = partition.leases.takes_due(self.now)
            self.release(number, partition.leases.expire(now=self.now, wall=self.now))
            if is_due:
                self.wake(number)
        self.evaluate(self.waiters.due(self.now))

    def change_leader(self, number: int) -> None:
        """Let another leader take over, which knows only the share.  It evaluates the waiting fetches again."""
        self.partitions[number].lead()
        for answer in self.answers:
            answer.acquired.pop(number, None)
        for name in self.reading:
            if number in self.fetches[name].reads:
                self.fetches[name].reads[number] = self.partitions[number].read(self.now)
        self.wake(number)

    # What the members do.

    def send_fetch(self, member: str) -> None:
        connection, epoch = self.clients[member]
        wanted = KEYS if epoch == 0 else ()
        try:
            session = self.sessions.fetch("g", member, epoch, connection=connection, wanted=wanted)
        except KafkaError:
            self.clients[member] = connection, 0
            return
        self.clients[member] = connection, epoch + 1
        name = self.fetch_count
        self.fetch_count += 1
        self.fetches[name] = Fetch(session, connection, self.now + self.chance.randrange(80))
        keys = [number for _, number in session.rotated()]
        self.evaluate(self.waiters.begin(name, keys, self.fetches[name].deadline))

    def send_acknowledgement(self, member: str, kind: int) -> None:
        connection, epoch = self.clients[member]
        number = self.chance.randrange(len(KEYS))
        partition = self.partitions[number]
        mine = sorted(offset for offset, holder in partition.holders.items() if holder == member)
        if not mine or not epoch:
            return
        try:
            self.sessions.acknowledge("g", member, epoch, connection=connection)
        except KafkaError:
            self.clients[member] = connection, 0
            return
        self.clients[member] = connection, epoch + 1
        offset = self.chance.choice(mine)
        said = [AcknowledgedRange(offset, offset + 1, kind)]
        with pytest.raises(AcknowledgementRefused):
            partition.leases.acknowledge("someone else", said, now=self.now, wall=self.now)
        decided = partition.leases.acknowledge(member, said, now=self.now, wall=self.now)
        if kind != Acknowledgement.RENEW:
            self.release(number, decided)

    def reconnect(self, member: str) -> None:
        """Let a member open another connection.  The broker may learn only later that the old one is closed."""
        old, _ = self.clients[member]
        self.clients[member] = self.connection_count, 0
        self.connection_count += 1
        if self.chance.random() < 0.5:
            self.disconnect(old)
        else:
            self.send_fetch(member)
            self.disconnect(old)

    def step(self, *, is_healing: bool) -> None:
        member = self.chance.choice("abc")
        kinds = [Acknowledgement.ACCEPT] if is_healing else list(Acknowledgement)
        match self.chance.randrange(12):
            case 0 | 1:
                self.send_fetch(member)
            case 2 | 3 if self.reading:
                self.end_evaluation(self.chance.choice(self.reading))
            case 4 if self.answers:
                self.answers.pop(0)
            case 5 | 6 | 7:
                self.send_acknowledgement(member, self.chance.choice(kinds))
            case 8 | 9:
                number = self.chance.randrange(len(KEYS))
                if self.partitions[number].rows:
                    self.commit(number)
            case 10:
                self.pass_time(self.chance.randrange(30))
            case 11 if not is_healing:
                number = self.chance.randrange(len(KEYS))
                match self.chance.randrange(6):
                    case 0 | 1 | 2:
                        kind = self.chance.choice(["data", "data", "data", "control", "aborted"])
                        self.partitions[number].append(self.chance.randint(1, 9), kind)
                        self.wake(number)
                    case 3 | 4:
                        self.reconnect(member)
                    case 5:
                        self.change_leader(number)


@pytest.mark.parametrize("seed", range(20))
def test_every_record_is_processed_whatever_happens(seed: int) -> None:
    """
    Members fetch, acknowledge, reconnect and are slow, rows commit late, and leaders change.  In every term, each
    acquired record has one holder and is in the bytes that were sent to it.  When the faults end, all records are
    processed, and no fetch keeps waiting.
    """
    leader = Leader(seed)
    for _ in range(1_000):
        leader.step(is_healing=False)
    for _ in range(20_000):
        leader.step(is_healing=True)
        if all(partition.share.start == partition.end for partition in leader.partitions):
            break

    assert [partition.end for partition in leader.partitions] == [one.share.start for one in leader.partitions]
    while leader.reading:
        leader.end_evaluation(leader.reading[0])
    leader.pass_time(1_000)
    while leader.reading:
        leader.end_evaluation(leader.reading[0])
    assert (0, {}) == (len(leader.waiters), leader.fetches)
