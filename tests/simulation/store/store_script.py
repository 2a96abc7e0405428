"""A scripted run, determined by one seed, that performs all kinds of a broker's disk operations on a small scale."""

import struct
from random import Random

from tests.simulation.share_rows import share_row
from tests.simulation.summing_machine import add_command
from tidemill.batches.builder import build_batch
from tidemill.batches.checksum import crc32c
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId
from tidemill.raft.entry import BATCH, Entry, log_start, no_op
from tidemill.raft.voters import Membership
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.simulation.store.store_driver import StoreDriver
from tidemill.simulation.store.store_model import ModelEntry
from tidemill.storage.journal.journal_block import HEADER_BYTES
from tidemill.storage.journal.row import ROW_BYTES
from tidemill.storage.journal.shard_log import ShardDescriptor, ShardLog
from tidemill.storage.partition.partition_log import LogConfig
from tidemill.storage.store import StoreOptions

KEY = b"k" * 16
# The header of an empty block whose sequence is far higher than any in a run.
FORGED = struct.pack(">4sIH2xIQQQQI12x", b"TMJB", 0, 1, 0, 1 << 40, 1 << 40, 0, 0, 0)
ME = ReplicaKey(BrokerId(1), DirectoryId(b"d" * 16))
PEER = ReplicaKey(BrokerId(2), DirectoryId(b"e" * 16))
OPTIONS = StoreOptions(
    journal_first_bytes=64 << 10,
    journal_file_bytes=32 << 10,
    journal_bytes_max=96 << 10,
    block_bytes_max=8 << 10,
    cache_bytes_max=8 << 10,
    checkpoint_bytes=48 << 10,
)
CONFIG = LogConfig(segment_bytes=8 << 10, index_interval_bytes=1024)
LED, MADE, FOLLOWED, NEIGHBOUR, LATE, SECOND = (ShardId(number) for number in (0, 1, 2, 3, 4, 5))


def descriptor(topic: int, first_partition: int, partition_count: int, *voters: ReplicaKey) -> ShardDescriptor:
    return ShardDescriptor(
        topic_id=TopicId(bytes([topic]) * 16),
        first_partition=first_partition,
        partition_count=partition_count,
        feature_level=1,
        membership=Membership(voters or (ME,)),
    )


class StoreScript:
    """
    Drives `driver` in rounds.  Two shards have a single voter, which leads.  Two others follow a leader whose actions
    are drawn from the seed.
    """

    def __init__(self, driver: StoreDriver, disk: SimulatedDisk, seed: int = 1) -> None:
        self.driver = driver
        self.disk = disk
        self.random = Random(seed)
        self._added = Random(seed)  # a separate generator: additions do not change other draws
        driver.write_back_bytes_min = 0 if seed % 2 else 24 << 10  # write back each block, or several together
        self.now_ms = 1_000
        self.written = 0
        self.truncations = 0

    def run(self, rounds: int = 25) -> None:
        self._open(LED, descriptor(1, 0, 1))
        self._open(MADE, descriptor(2, 0, 2))
        self.driver.open_shard(FOLLOWED, descriptor(3, 0, 2, ME, PEER))
        self.driver.drain()
        for number in range(rounds):
            self.now_ms += 10
            self._round(number)
        self.driver.drain()
        if self.driver.store.can_checkpoint:
            self.driver.store.begin_checkpoint()
        self.driver.drain()
        self.driver.block(empty=True)

    def _open(self, shard_id: ShardId, opened: ShardDescriptor) -> None:
        self.driver.open_shard(shard_id, opened)
        self.driver.elect(shard_id, ME, self.now_ms)

    def _round(self, number: int) -> None:
        random, driver = self.random, self.driver
        shards = driver.store.shards
        for _ in range(random.randint(1, 3)):
            self._lead(random.choice([shard_id for shard_id in driver.replicas if shard_id in shards]))
        for shard_id in (FOLLOWED, NEIGHBOUR):
            if shard_id in shards and shards[shard_id].installing is None:  # one that came back needs a snapshot
                self._follow(shard_id)
        if number == 4:
            driver.open_shard(NEIGHBOUR, descriptor(3, 2, 2, ME, PEER))
        if number in (6, 13, 22, 28):
            self._move_log_start(MADE, random.choice((0, 1)))
        if number in (8, 18, 29):
            self._trim_committed(FOLLOWED)
        if number == 9:
            self._open(LATE, descriptor(4, 0, 1))
        if number == 15:
            driver.before_write_back, driver.after_write_back = self._fill, self._make_room
        if number == 16:
            driver.before_write_back = driver.after_write_back = _nothing
        if number == 19:
            driver.open_shard(SECOND, descriptor(3, 4, 1, ME, PEER))
            driver.vote(SECOND, 1, ME)
            self._append_followed(SECOND, 1, 2)
            driver.block()
            driver.close_shard(NEIGHBOUR)
        if number == 21:
            driver.drain()
            driver.open_shard(NEIGHBOUR, descriptor(3, 2, 2, ME, PEER))
        if number == 23:
            driver.close_shard(LATE)
        if number == 12:
            self._forge()
        if number in (5, 11, 17, 24):
            self._checkpoint_while_rows_wait(is_slow=number in (11, 24))
        if number == 27:
            driver.elect(LED, ME, self.now_ms)
        driver.block()
        if number % 3 == 0:
            driver.block()
        if number % 10 == 8:
            driver.drain()
            driver.block(empty=True)

    def _checkpoint_while_rows_wait(self, *, is_slow: bool) -> None:
        """
        Begin a checkpoint while a vote and entries are queued.  With `is_slow`, they are journaled after the
        checkpoint.
        """
        driver = self.driver
        driver.drain()
        log = driver.store.shards[FOLLOWED]
        driver.vote(FOLLOWED, log.term + 1, PEER)
        self._append_followed(FOLLOWED, log.term, 1)
        driver.store.begin_checkpoint()
        while is_slow and driver.store.is_checkpointing:
            driver.background_step()

    # Methods for the shards with one voter.

    def _lead(self, shard_id: ShardId) -> None:
        if not self.driver.replicas[shard_id].leads:
            return
        log = self.driver.store.shards[shard_id]
        self._write(shard_id, self.random.choice(list(log.partitions)), self.random.choice((60, 900, 2500, 3900)))
        for added in self._additions(log):
            self.driver.propose(shard_id, added)

    def _write(self, shard_id: ShardId, partition: int, size: int) -> None:
        replica = self.driver.replicas[shard_id]
        if not replica.leads:
            return
        self.driver.propose(shard_id, self._batch(shard_id, partition, replica.term, size))

    def _forge(self) -> None:
        """
        Append a batch that a client could forge: its bytes look like journal blocks, at every alignment to a page.
        """
        self.driver.drain()
        self.driver.block()
        replica = self.driver.replicas[MADE]
        header = FORGED[:4] + crc32c(FORGED[8:]).to_bytes(4) + FORGED[8:]
        value = header * (9_000 // len(header))
        log = self.driver.store.shards[MADE].partitions[0]
        payload = bytes(self._payload(log.end_offset, replica.term, value))
        shift = -(HEADER_BYTES + ROW_BYTES + payload.index(header)) % len(header)
        payload = self._payload(log.end_offset, replica.term, bytes(shift) + value)
        entry = Entry(BATCH, payload, partition=0, base_offset=log.end_offset, record_count=1, append_time=self.now_ms)
        self.driver.propose(MADE, entry)
        self.driver.block()

    def _payload(self, base_offset: int, term: int, value: bytes) -> bytearray:
        return build_batch([(None, value, (), self.now_ms)], base_offset=base_offset, leader_epoch=term)

    def _move_log_start(self, shard_id: ShardId, partition: int) -> None:
        log = self.driver.store.shards[shard_id].partitions[partition]
        offset = max(log.log_start, log.end_offset - self.random.randint(0, 3))
        self.driver.propose(shard_id, log_start(partition, offset, self.now_ms))
        self.driver.drain()
        self.driver.trim(shard_id, partition, offset)

    # Methods for the shards that follow a leader.

    def _follow(self, shard_id: ShardId) -> None:
        random, driver = self.random, self.driver
        log = driver.store.shards[shard_id]
        if log.term == 0 or random.random() < 0.3:
            driver.vote(shard_id, log.term + 1, random.choice((ME, PEER, None)))
        behind = log.last_index - log.commit_index
        if behind > 1 and random.random() < 0.45:
            self.truncations += 1
            driver.truncate(shard_id, random.randint(log.commit_index + 1, log.last_index))
        newest = log.term_at(log.last_index)
        self._append_followed(shard_id, random.randint(max(1, newest), log.term), random.randint(1, 3))
        durable = driver.history.models[driver.history.acknowledged].shards.get(shard_id)
        if durable is not None and random.random() < 0.4:
            agreed = agreed_index(durable.entries, log)
            if agreed > log.commit_index:
                driver.commit(shard_id, random.randint(log.commit_index, agreed))

    def _append_followed(self, shard_id: ShardId, term: int, count: int) -> None:
        log = self.driver.store.shards[shard_id]
        entries = []
        index = log.last_index
        if term != log.term_at(index):
            command = no_op(self.now_ms)
            command.index, command.term = index + 1, term
            self.driver.append(shard_id, [command])
        for _ in range(count):
            partition = self.random.choice(list(log.partitions))
            entry = self._batch(shard_id, partition, term, self.random.choice((80, 1200, 2600)))
            entry.index, entry.term = log.last_index + 1, term
            self.driver.append(shard_id, [entry])
            entries.append(entry)
            for added in self._additions(log):
                added.index, added.term = log.last_index + 1, term
                self.driver.append(shard_id, [added])

    def _additions(self, log: ShardLog) -> list[Entry]:
        """Return commands for the toy state machine and for share groups; many calls return none."""
        random, partitions = self._added, list(log.partitions)
        count = random.choice((0, 0, 1, 1, 2))
        added = [add_command(random.choice(partitions), random.randint(1, 9), self.now_ms) for _ in range(count)]
        return added + [share_row(random, random.choice(partitions), self.now_ms) for _ in range(count)]

    def _trim_committed(self, shard_id: ShardId) -> None:
        log = self.driver.store.shards[shard_id]
        for partition in log.partitions.values():
            ends = [
                entry.base_offset + entry.record_count
                for entry in log.entries
                if entry.kind == BATCH and entry.partition == partition.partition and entry.index <= log.commit_index
            ]
            if ends and ends[-1] > partition.trimmed:
                self.driver.trim(shard_id, partition.partition, ends[-1])

    # Methods for batches and space.

    def _batch(self, shard_id: ShardId, partition: int, term: int, size: int) -> Entry:
        random = self.random
        log = self.driver.store.shards[shard_id].partitions[partition]
        self.written += 1
        values = [
            b"%d of shard %d partition %d " % (self.written, shard_id, partition) + random.randbytes(size)
            for _ in range(random.choice((1, 1, 2, 3)) if size < 1000 else 1)
        ]
        producer = random.choice((-1, 7, 8))
        newest = log.producers.newest().get(producer)
        sequence = -1 if producer < 0 else 0 if newest is None else newest.last_sequence + 1
        payload = build_batch(
            [(None, value, (), self.now_ms) for value in values],
            base_offset=log.end_offset,
            leader_epoch=term,
            producer_id=producer,
            producer_epoch=-1 if producer < 0 else 0,
            base_sequence=sequence,
        )
        return Entry(
            BATCH,
            payload,
            partition=partition,
            base_offset=log.end_offset,
            record_count=len(values),
            append_time=self.now_ms,
        )

    def _fill(self) -> None:
        self.disk.free_bytes = 0

    def _make_room(self) -> None:
        self.disk.free_bytes = None


def agreed_index(durable: list[ModelEntry], log: ShardLog) -> int:
    """
    Return the highest index up to which the durable entries equal those of the log.  The log has replaced the later
    durable entries, perhaps by entries of the same term.
    """
    agreed = log.commit_index
    while agreed < min(len(durable), log.last_index) and _is_same(durable[agreed], log.entry_at(agreed + 1)):
        agreed += 1
    return agreed


def _is_same(model: ModelEntry, entry: Entry) -> bool:
    payload = entry.payload  # None if the payload is only in the segment, to which only durable entries are written
    if payload is not None and model.payload != payload:
        return False
    return (model.term, model.base_offset, model.append_time) == (entry.term, entry.base_offset, entry.append_time)


def _nothing() -> None:
    return None
