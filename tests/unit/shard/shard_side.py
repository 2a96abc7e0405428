"""A broker with one shard on a simulated disk, and the exchange of messages between two such brokers."""

from collections import deque

import pytest

from tidemill.batches.builder import build_batch
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId
from tidemill.model.topic_config import compile_topic_config
from tidemill.raft.message_codec import decode, encode
from tidemill.raft.messages import (
    Message,
)
from tidemill.raft.voters import Membership
from tidemill.shard.append import append_own
from tidemill.shard.copy_pacing import CopyPacing
from tidemill.shard.jobs import Workers
from tidemill.shard.shard import Shard
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.simulation.machine.jobs import SimulatedJobs
from tidemill.storage.journal.shard_log import ShardDescriptor
from tidemill.storage.machine.shard_machine import MachineRegistry
from tidemill.storage.recovery import initialize_directory, open_store
from tidemill.storage.store import StoreOptions

LEADER, LEARNER = (ReplicaKey(BrokerId(number), DirectoryId(bytes([number]) * 16)) for number in (1, 2))
KEY = b"k" * 16
OPTIONS = StoreOptions(
    journal_first_bytes=1 << 20, journal_file_bytes=1 << 20, journal_bytes_max=4 << 20, tail_entries=2
)
DESCRIPTOR = ShardDescriptor(
    topic_id=TopicId(b"t" * 16),
    first_partition=0,
    partition_count=2,
    feature_level=1,
    membership=Membership((LEADER,), (LEARNER,)),
)


class Side:
    """A broker with one shard.  Messages that the shard sends wait in `out`."""

    def __init__(
        self,
        me: ReplicaKey,
        disk: SimulatedDisk | None = None,
        machines: MachineRegistry | None = None,
        pacing: CopyPacing | None = None,
        options: StoreOptions = OPTIONS,
    ) -> None:
        if disk is None:
            disk = SimulatedDisk()
            initialize_directory(disk, KEY, options)
        self.me, self.disk = me, disk
        self.store, _ = open_store(disk, KEY, options, machines)
        log = self.store.shards.get(ShardId(1)) or self.store.open_shard(ShardId(1), DESCRIPTOR)
        self.out: deque[bytes] = deque()
        self.sent: list[Message] = []
        self.alive: set[ReplicaKey] = set()
        self.jobs = SimulatedJobs()
        self.now_ms = 10_000
        workers = Workers(self.jobs, self.jobs, lambda error: pytest.fail(repr(error)))
        config = compile_topic_config({})
        self.shard = Shard(
            self.store,
            log,
            me,
            "t",
            config,
            wake=lambda: None,
            jitter_ms=lambda: 0,
            transport=self,
            observer=self,
            workers=workers,
            pacing=pacing,
        )

    def is_alive(self, voter: ReplicaKey) -> bool:
        return voter in self.alive

    may_lead = is_alive

    def send(self, shard_id: ShardId, to: ReplicaKey, message: Message) -> None:
        self.out.append(b"".join(encode(message)))
        self.sent.append(message)

    def serving_changed(self, shard: Shard) -> None: ...
    def damage_changed(self, shard: Shard) -> None: ...

    def membership_changed(self, shard: Shard) -> None: ...

    def resume(self) -> None:
        """Run until nothing is queued, no write-back is due, and no job is left."""
        for _ in range(100):
            block = self.store.gather()
            if block is not None:
                block.write(self.store.journal)
                for report in self.store.written(block):
                    self.shard.advance(report)
            write_back = self.store.next_write_back(0)
            if write_back is not None:
                write_back.execute(self.disk)
                self.store.write_back_done(write_back)
            if not (self.jobs.step() or block or write_back):
                return

    def tick(self) -> None:
        self.now_ms += 500
        self.shard.tick(self.now_ms, self.now_ms)
        self.resume()

    def write(self, partition: int, value: bytes) -> None:
        append_own(self.shard.partitions[partition], build_batch([(None, value, (), self.now_ms)]), self.now_ms)
        self.resume()

    def values(self, partition: int) -> bytes:
        it = self.shard.partitions[partition]
        data = bytearray()
        offset = it.log_start
        while offset < it.high_watermark:
            found = it.log.read(offset, 1, it.high_watermark, may_wait=True)
            assert found is not None
            data += b"".join(found[0])
            offset += 1
        return bytes(data)


def exchange(leader: Side, learner: Side, turns: int = 12) -> None:
    for _ in range(turns):
        while leader.out or learner.out:
            for side, other in ((leader, learner), (learner, leader)):
                while side.out:
                    other.shard.receive(side.me, decode(memoryview(side.out.popleft())))
                    other.resume()
        leader.tick()
        learner.tick()
