"""A store on a simulated disk that a test drives step by step, in place of the ready loop."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tidemill.batches.builder import build_batch
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId
from tidemill.raft.entry import BATCH, Entry
from tidemill.raft.voters import Membership
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.storage.journal.shard_log import ShardDescriptor, ShardLog
from tidemill.storage.partition.partition_log import LogConfig, PartitionLog
from tidemill.storage.recovery import RecoveryReport, initialize_directory, open_store
from tidemill.storage.store import Store, StoreOptions

KEY = b"k" * 16
ME = ReplicaKey(BrokerId(1), DirectoryId(b"d" * 16))
TOPIC = TopicId(b"t" * 16)
SHARD = ShardId(1)
PAGE = 4096
SMALL = StoreOptions(
    journal_first_bytes=32 * PAGE,
    journal_file_bytes=32 * PAGE,
    journal_bytes_max=32 * PAGE,
    block_bytes_max=4 * PAGE,
    cache_bytes_max=2 * PAGE,
    checkpoint_bytes=16 * PAGE,
)


@dataclass
class Hand:
    """A store and the shard that most tests use.  The test executes each step of the store."""

    disk: SimulatedDisk
    store: Store
    found: RecoveryReport = field(default_factory=RecoveryReport)
    next_timestamp: int = 1_000

    @property
    def shard(self) -> ShardLog:
        return self.store.shards[SHARD]

    @property
    def log(self) -> PartitionLog:
        return self.shard.partitions[0]

    def open_shard(self, shard_id: ShardId = SHARD, *, first: int = 0, count: int = 2) -> ShardLog:
        descriptor = ShardDescriptor(
            topic_id=TOPIC, first_partition=first, partition_count=count, feature_level=1, membership=Membership((ME,))
        )
        log = self.store.open_shard(shard_id, descriptor)
        self.store.vote(shard_id, log, 1, ME)
        return log

    def append(
        self, count: int = 1, *, partition: int = 0, size: int = 100, term: int = 1, **batch: int
    ) -> list[Entry]:
        """Append `count` batches of one record of about `size` bytes each to the shard."""
        return [self._append(partition, 1, size, term, batch) for _ in range(count)]

    def append_batch(self, records: int, *, partition: int = 0, size: int = 100, term: int = 1) -> Entry:
        return self._append(partition, records, size, term, {})

    def _append(self, partition: int, records: int, size: int, term: int, batch: dict[str, int]) -> Entry:
        log = self.shard.partitions[partition]
        base = log.end_offset
        self.next_timestamp += 10
        payload = build_batch(
            [(None, b"%06d" % base + b"v" * size, (), self.next_timestamp)] * records,
            base_offset=base,
            leader_epoch=term,
            **batch,  # type: ignore[arg-type]
        )
        entry = Entry(BATCH, payload, partition=partition, base_offset=base, record_count=records)
        entry.index, entry.term, entry.append_time = self.shard.last_index + 1, term, self.next_timestamp
        self.store.append(self.shard, [entry])
        return entry

    def write(self, *, empty: bool = False) -> bool:
        """Write one block, and write it back to the segments.  Return False if there was no block."""
        block = self.store.gather(empty=empty)
        if block is None:
            return False
        block.write(self.store.journal)
        self.store.written(block)
        self.write_back()
        return True

    def write_back(self) -> None:
        """Write the durable entries back to the segments."""
        write_back = self.store.next_write_back(0)
        if write_back is not None:
            write_back.execute(self.disk)
            self.store.write_back_done(write_back)

    def write_all(self) -> None:
        while self.write():
            pass

    def commit(self) -> None:
        self.shard.commit(self.shard.last_index)

    def commit_durable(self) -> None:
        """Commit the entries that have left the queue."""
        waiting = [row.index for _, row in self.store.blocks.rows if row.kind == BATCH]
        self.shard.commit(min(waiting, default=self.shard.last_index + 1) - 1)

    def checkpoint_now(self) -> None:
        """Take a checkpoint without first writing a block."""
        self.store.begin_checkpoint()
        steps = self.store.checkpoint_steps()
        assert steps is not None, "P does not wait for what is queued"
        for _ in steps:
            pass
        self.store.checkpointed()

    def checkpoint(self) -> None:
        self.store.begin_checkpoint()
        self.write_all()
        self.write_back()
        steps = self.store.checkpoint_steps()
        assert steps is not None, "P is durable by now"
        for _ in steps:
            pass
        self.store.checkpointed()

    def remove(self) -> None:
        for step in self.store.removal_steps():
            step()
        self.store.removed()

    def restarted(self, disk: SimulatedDisk | None = None, options: StoreOptions = SMALL) -> "Hand":
        disk = disk or self.disk.after_kill()
        store, found = open_store(disk, KEY, options)
        return Hand(disk, store, found, self.next_timestamp)


def offsets_from(hand: Hand, offset: int, *, bytes_max: int = 1 << 20, end: int | None = None) -> list[int]:
    """Return the base offsets of the batches that a single read returns."""
    from tidemill.batches.batch import read_header

    log = hand.log
    found = log.read(offset, bytes_max, log.end_offset if end is None else end, may_wait=True)
    assert found is not None
    offsets = []
    for part in found[0]:
        at = 0
        while at < len(part):
            header = read_header(part, at)
            offsets.append(header.base_offset)
            at += header.size_bytes
    return offsets


@pytest.fixture
def make_hand() -> Callable[..., Hand]:
    def make(options: StoreOptions = SMALL, *, segment_bytes: int = 1 << 30, index_interval: int = 4096) -> Hand:
        disk = SimulatedDisk()
        initialize_directory(disk, KEY, options)
        store, found = open_store(disk, KEY, options)
        hand = Hand(disk, store, found)
        log = hand.open_shard()
        for partition in log.partitions.values():
            partition.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=index_interval)
        hand.write_all()
        return hand

    return make


@pytest.fixture
def read_offsets() -> Callable[..., list[int]]:
    return offsets_from


@pytest.fixture
def hand(make_hand: Callable[..., Hand]) -> Hand:
    return make_hand()
