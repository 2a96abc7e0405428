"""A leader and a follower with real stores on simulated disks.  The follower lacks entries and has a divergent tail.

Messages travel as bytes.  The follower may crash at any operation of its disk.
"""

from collections import deque
from random import Random

from tests.simulation.share_rows import share_row, shares_of
from tests.simulation.store.store_script import CONFIG, KEY, OPTIONS
from tests.simulation.summing_machine import MACHINES, add_command, summed_of
from tidemill.batches.batch import read_header, spans
from tidemill.batches.builder import build_batch
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId
from tidemill.raft.entry import BATCH, Entry, log_start, read_log_start
from tidemill.raft.message_codec import decode, encode
from tidemill.raft.messages import Message
from tidemill.raft.progress import Progress
from tidemill.raft.replica import Replica
from tidemill.raft.voters import Membership
from tidemill.shard.catch_up import CatchUp
from tidemill.shard.install import RETRY_MS, Install
from tidemill.shard.jobs import Workers
from tidemill.shard.learner_pacing import LearnerPacing
from tidemill.shard.outgoing import Outgoing
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.simulation.machine.jobs import SimulatedJobs
from tidemill.storage.journal.block import Block
from tidemill.storage.journal.shard_log import ShardDescriptor, ShardLog
from tidemill.storage.partition.partition_log import PartitionLog
from tidemill.storage.partition.segment import SegmentDamaged
from tidemill.storage.recovery import initialize_directory, open_store

LEADER = ReplicaKey(BrokerId(1), DirectoryId(b"l" * 16))
FOLLOWER = ReplicaKey(BrokerId(2), DirectoryId(b"f" * 16))
SHARD = ShardId(3)
DESCRIPTOR = ShardDescriptor(
    topic_id=TopicId(b"t" * 16),
    first_partition=0,
    partition_count=3,
    feature_level=1,
    membership=Membership((LEADER,), (FOLLOWER,)),
)
TURNS_MAX = 40
MESSAGES_MAX = 500  # the maximum number of messages delivered per turn in each direction


class Side:
    """The leader's or the follower's broker, reduced to one shard and its disk."""

    def __init__(self, me: ReplicaKey, disk: SimulatedDisk) -> None:
        self.me = me
        self.disk = disk
        self.store, found = open_store(disk, KEY, OPTIONS, MACHINES)
        assert not found.damaged, found.damaged
        self.log: ShardLog = self.store.shards.get(SHARD) or self.store.open_shard(SHARD, DESCRIPTOR)
        for partition in self.log.partitions.values():
            partition.config = CONFIG
        self.now_ms = 10_000
        self.out: deque[bytes] = deque()
        self.begin()

    def begin(self) -> None:
        """Create a new `Replica` on the existing log, as a restarted broker does."""
        log = self.log
        self.jobs = SimulatedJobs()
        self.marks = high_watermarks(log)
        self.replica = Replica(
            me=self.me,
            memberships=list(log.memberships),
            term=log.term,
            voted_for=log.voted_for,
            log=log,
            commit_index=log.commit_index,
            jitter_ms=lambda: 0,
            installing=log.installing,
        )
        self.outgoing = Outgoing(log, self.send, self.jobs, self._gone, _raise)
        pacing = LearnerPacing(log.shard_id, self.replica, None, lambda _: None)
        self.catch_up = CatchUp(log, self.replica, self.send, self.jobs, _raise, pacing)
        self.install = Install(self.store, log, self.replica, self, Workers(self.jobs, self.jobs, _raise))

    def high_watermarks(self) -> dict[int, int]:
        return self.marks

    def install_changed(self) -> None:
        self.marks = high_watermarks(self.log)

    def damage_found(self, problem: SegmentDamaged) -> None:
        raise problem

    def _gone(self, member: ReplicaKey) -> None:
        self.replica.needs_install(member)

    def send(self, _: ReplicaKey, message: Message) -> None:
        self.out.append(b"".join(encode(message)))

    def tick(self) -> None:
        self.now_ms += RETRY_MS
        self._write_back()
        self.replica.tick(self.now_ms, self.now_ms, lambda _: True)
        self.execute()
        self.install.tick(self.now_ms)
        self.catch_up.tick()

    def hear(self, sender: ReplicaKey, data: bytes) -> None:
        self.replica.receive(sender, decode(memoryview(data)))
        self.execute()

    def execute(self) -> None:
        replica = self.replica
        while True:
            ready = replica.ready()
            if ready.vote is not None:
                self.store.vote(SHARD, self.log, ready.vote.term, ready.vote.voted_for)
            if ready.truncate_from is not None:
                self.store.truncate(self.log, ready.truncate_from)
            if ready.entries:
                self.store.append(self.log, ready.entries)
            for to, message in ready.messages:
                self.outgoing.send(to, message)
            for member in ready.installs:
                self.catch_up.offer(member)
            for member, pull in ready.pulls:
                self.catch_up.answer(member, pull)
            if ready.offer is not None:
                self.install.offered(ready.offer)
            for chunk in ready.chunks:
                self.install.received(chunk)
            self._apply()
            if not self._block():
                break
        while self.jobs.step():
            pass
        self.install.resume()

    def _block(self) -> bool:
        store = self.store
        block = store.gather()
        if block is None:
            if store.has_pending:
                self.checkpoint()
                return True
            return False
        self._written(block)
        self._apply()
        if block.sequence % 2 == 0:
            self._write_back()
        if block.sequence % 5 == 0:
            self.checkpoint()
        return True

    def _written(self, block: Block) -> None:
        block.write(self.store.journal)
        for report in self.store.written(block):
            self.replica.advance(report.term, report.log_index, report.vote)
            if report.is_installing:
                self.install.row_is_durable()

    def _write_back(self) -> None:
        write_back = self.store.next_write_back(0)
        if write_back is not None:
            write_back.execute(self.disk)
            self.store.write_back_done(write_back)

    def checkpoint(self) -> None:
        store = self.store
        if not store.can_checkpoint:
            return
        store.begin_checkpoint()
        while (steps := store.checkpoint_steps()) is None:
            block = store.gather()
            if block is not None:
                self._written(block)
            self._write_back()
        for _ in steps:
            pass
        store.checkpointed()
        for step in store.removal_steps():
            step()
        store.removed()

    def _apply(self) -> None:
        log, stable = self.log, self.replica.stable_index
        if stable <= log.commit_index or log.installing is not None:
            return
        for index in range(max(log.commit_index + 1, log.first_index), stable + 1):
            entry = log.entry_at(index)
            if entry.kind != BATCH and entry.payload and entry.payload[0] == 1:
                number, offset = read_log_start(entry.payload)
                if offset > log.partitions[number].log_start:
                    self.store.trim(log, number, offset)
        log.commit(stable)
        self.marks = high_watermarks(log)

    # Methods for the actions of a script.

    def batch(self, partition: int, term: int, value: bytes, **producer: int) -> Entry:
        log = self.log.partitions[partition]
        payload = build_batch(
            [(None, value, (), self.now_ms)], base_offset=log.end_offset, leader_epoch=term, **producer
        )
        return Entry(
            BATCH,
            payload,
            partition=partition,
            base_offset=log.end_offset,
            record_count=1,
            append_time=self.now_ms,
        )

    def propose(self, entry: Entry) -> None:
        self.replica.propose(entry)
        self.execute()


def high_watermarks(log: ShardLog) -> dict[int, int]:
    """
    Return the high watermarks as `Shard` computes them: each ends before the first batch not known to be committed.
    """
    found = {number: partition.end_offset for number, partition in log.partitions.items()}
    for entry in reversed(log.entries):
        if entry.kind == BATCH and entry.index > log.commit_index:
            found[entry.partition] = entry.base_offset
    return found


class Pair:
    """A leader and its follower.  `seed` determines what the leader writes, where the follower's log ends, and its
    divergent tail.
    """

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.added = Random(seed)  # draws the values for the toy state machine
        disks = [SimulatedDisk(), SimulatedDisk()]
        for disk in disks:
            initialize_directory(disk, KEY, OPTIONS)
        self.leader, self.follower = Side(LEADER, disks[0]), Side(FOLLOWER, disks[1])
        self.sequence = 0
        self.marks: dict[int, int] = {}  # the follower's high watermarks before the install
        self._lead()
        self._write(random.randint(0, 30))
        self.exchange()
        self.committed = self.follower.log.commit_index
        if random.random() < 0.3:
            self._move_log_start()
        self._write(random.randint(1, 40))
        self._diverge()
        self._lead()
        self._write(random.randint(1, 30))
        if random.random() < 0.5:
            self._move_log_start()
        self.drop_rows()
        self.follower.out.clear()
        self.leader.out.clear()

    def _lead(self) -> None:
        """Let the leader begin a new term; the follower's tail may be from the previous term."""
        leader = self.leader
        leader.store.vote(SHARD, leader.log, leader.log.term + 1, None)
        leader.begin()
        leader.tick()
        leader.execute()
        assert leader.replica.is_confirmed

    def _write(self, count: int) -> None:
        leader, random = self.leader, self.random
        for _ in range(count):
            producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": self.sequence}
            is_idempotent = random.random() < 0.3
            partition = random.choice((0, 0, 1)) if not is_idempotent else 1
            self.sequence += is_idempotent
            value = random.randbytes(random.choice((20, 400, 1_500)))
            leader.propose(leader.batch(partition, leader.replica.term, value, **(producer if is_idempotent else {})))
            if self.added.random() < 0.4:
                leader.propose(add_command(self.added.choice((0, 1, 2)), self.added.randint(1, 9), leader.now_ms))
                leader.propose(share_row(self.added, self.added.choice((0, 1, 2)), leader.now_ms))

    def _move_log_start(self) -> None:
        leader = self.leader
        log = leader.log.partitions[0]
        if log.end_offset > log.log_start:
            offset = self.random.randint(log.log_start + 1, log.end_offset)
            leader.propose(log_start(0, offset, leader.now_ms))

    def _diverge(self) -> None:
        """Append entries that only the follower received, from another leader of the previous term."""
        follower, term = self.follower, self.leader.replica.term + 1
        follower.store.vote(SHARD, follower.log, term, None)
        for _ in range(self.random.choice((0, 0, 3, 12))):
            partition = self.random.choice((0, 1, 2))
            entry = follower.batch(partition, term, self.random.randbytes(self.random.choice((30, 2_000))))
            entry.index, entry.term = follower.log.last_index + 1, term
            follower.store.append(follower.log, [entry])
            if self.added.random() < 0.4:
                added = add_command(self.added.choice((0, 1, 2)), 1_000, follower.now_ms)
                added.index, added.term = follower.log.last_index + 1, term
                follower.store.append(follower.log, [added])
        while follower._block():
            pass
        follower.begin()
        leader = self.leader
        leader.store.vote(SHARD, leader.log, term, None)

    def drop_rows(self) -> None:
        log = self.leader.log
        while log.first_index <= log.commit_index and log.entries:
            log.entries.popleft()
            log.first_index += 1
        log._term_starts = [start for start in log._term_starts if start[0] >= log.first_index - 1][-1:] or [
            (log.first_index - 1, log._term_starts[-1][1])
        ]

    # Methods that exchange messages and compare the two sides.

    def begin_again(self) -> None:
        """Reset the leader's progress for a follower that was opened from another disk and has acknowledged nothing."""
        tracker = self.leader.replica._tracker
        assert tracker is not None, "it leads"
        tracker.members[FOLLOWER] = Progress(next_index=self.leader.log.last_index + 1)
        self.leader.out.clear()

    def exchange(self, follower: Side | None = None) -> None:
        """Deliver messages until the follower has everything that the leader has."""
        leader, follower = self.leader, follower or self.follower
        for turn in range(TURNS_MAX):
            for _ in range(MESSAGES_MAX):
                if leader.out:
                    follower.hear(LEADER, leader.out.popleft())
                if follower.out:
                    leader.hear(FOLLOWER, follower.out.popleft())
                if not leader.out and not follower.out:
                    break
            if follower.replica.stable_index == leader.log.last_index and follower.replica.installing is None:
                follower.install.resume()
                return
            if turn:
                leader.tick()
                follower.tick()
            else:
                leader.replica.peer_reconnected(FOLLOWER)
                leader.execute()
        raise AssertionError(f"the follower has not caught up after {TURNS_MAX} turns: {follower.install.stage}")

    def differences(self, follower: Side) -> list[str]:
        found = []
        ours, theirs = follower.log, self.leader.log
        if (ours.last_index, ours.term_at(ours.last_index)) != (theirs.last_index, theirs.term_at(theirs.last_index)):
            found.append(f"the log ends at {ours.last_index}, not {theirs.last_index}")
        for number, log in theirs.partitions.items():
            copy = ours.partitions[number]
            for name in ("log_start", "trimmed", "end_offset"):
                if getattr(copy, name) != getattr(log, name):
                    found.append(f"partition {number}: {name} {getattr(copy, name)}, not {getattr(log, name)}")
            if [it[:2] for it in copy.epochs.starts] != [it[:2] for it in log.epochs.starts]:
                found.append(f"partition {number}: epochs {copy.epochs.starts}, not {log.epochs.starts}")
            if copy.producers.newest() != log.producers.newest():
                found.append(f"partition {number}: producers {copy.producers.newest()}")
            # Pending values count, too, because the follower may not know yet that they have committed.
            if summed_of(ours, number).with_pending != summed_of(theirs, number).with_pending:
                found.append(f"partition {number}: {summed_of(ours, number)}, not {summed_of(theirs, number)}")
            is_equally_committed = ours.commit_index == theirs.commit_index
            if is_equally_committed and shares_of(ours, number) != shares_of(theirs, number):
                found.append(f"partition {number}: shares {shares_of(ours, number)!r}")
            if content(copy) != content(log):
                found.append(f"partition {number}: other bytes")
        return found

    def lost(self, follower: Side) -> list[str]:
        """
        Return a message for each partition that has lost records that were committed on the follower before the
        install.
        """
        found = []
        for number, mark in self.marks.items():
            copy, log = follower.log.partitions[number], self.leader.log.partitions[number]
            start = max(copy.log_start, log.log_start)
            if start < mark and content(copy, start, mark) != content(log, start, mark):
                found.append(f"partition {number}: committed records below {mark} are missing")
        return found


def content(log: PartitionLog, start: int | None = None, end: int | None = None) -> bytes:
    offset = log.log_start if start is None else start
    end = min(log.end_offset, log.end_offset if end is None else end)
    data = bytearray()
    while offset < end:
        found = log.read(offset, 4_000, end, may_wait=True)
        assert found is not None and found[1], f"nothing is read at offset {offset} of {log.directory}"
        batches = b"".join(found[0])
        data += batches
        offset = max(read_header(batches, span.position).end_offset for span in spans(batches))
    return bytes(data)


def _raise(error: BaseException) -> None:
    raise error
