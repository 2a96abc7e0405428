"""If entries are truncated and appended again during a sync, the sync must not count for the new entries."""

from dataclasses import replace

from tidemill.batches.builder import build_batch
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId
from tidemill.model.topic_config import compile_topic_config
from tidemill.raft.entry import BATCH, Entry, no_op
from tidemill.raft.messages import AppendEntries, AppendEntriesResponse, Message
from tidemill.raft.voters import Membership
from tidemill.shard.jobs import Workers
from tidemill.shard.shard import Shard
from tidemill.simulation.machine.crash_fate import ALL_LOST
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.simulation.machine.jobs import SimulatedJobs
from tidemill.storage.journal.block import Block
from tidemill.storage.journal.shard_log import ShardDescriptor
from tidemill.storage.recovery import initialize_directory, open_store
from tidemill.storage.store import StoreOptions

VOTERS = tuple(ReplicaKey(BrokerId(number), DirectoryId(bytes([number]) * 16)) for number in range(1, 6))
ME, SECOND, THIRD = VOTERS[:3]
KEY = b"k" * 16
NOW = 1_000_000
PAGE = 4096
OPTIONS = replace(
    StoreOptions(journal_first_bytes=1 << 20, journal_file_bytes=1 << 20, journal_bytes_max=4 << 20),
    block_bytes_max=4 * PAGE,
)


class RaftTransport:
    def __init__(self) -> None:
        self.sent: list[tuple[ReplicaKey, Message]] = []

    def is_alive(self, voter: ReplicaKey) -> bool:
        return True

    may_lead = is_alive

    def send(self, shard_id: ShardId, to: ReplicaKey, message: Message) -> None:
        self.sent.append((to, message))

    def serving_changed(self, shard: Shard) -> None: ...

    def damage_changed(self, shard: Shard) -> None: ...

    def membership_changed(self, shard: Shard) -> None: ...


def entry(index: int, term: int) -> Entry:
    it = no_op(NOW)
    it.index, it.term = index, term
    return it


def test_a_follower_acknowledges_only_what_survives_a_power_loss() -> None:
    disk = SimulatedDisk()
    initialize_directory(disk, KEY, OPTIONS)
    store, _ = open_store(disk, KEY, OPTIONS)
    transport = RaftTransport()

    def descriptor(topic: bytes) -> ShardDescriptor:
        return ShardDescriptor(
            topic_id=TopicId(topic * 16),
            first_partition=0,
            partition_count=1,
            feature_level=1,
            membership=Membership(VOTERS),
        )

    log = store.open_shard(ShardId(1), descriptor(b"t"))
    busy = store.open_shard(ShardId(2), descriptor(b"u"))
    workers = Workers(SimulatedJobs(), SimulatedJobs(), lambda error: None)
    shard = Shard(
        store,
        log,
        ME,
        "t",
        compile_topic_config({}),
        wake=lambda: None,
        jitter_ms=lambda: 0,
        transport=transport,
        observer=transport,
        workers=workers,
    )

    def begin() -> Block:
        block = store.gather()
        assert block is not None
        block.write(store.journal)
        return block

    def end(block: Block) -> None:
        for report in store.written(block):
            if report.shard_id == 1:
                shard.advance(report)

    def append(leader: ReplicaKey, term: int, prev: tuple[int, int], *entries: Entry) -> None:
        shard.receive(
            leader, AppendEntries(term=term, prev_index=prev[0], prev_term=prev[1], entries=entries, commit_index=0)
        )

    # SECOND leads term 1.  All voters have entries 1 and 2; only SECOND and this broker get entry 3.
    append(SECOND, 1, (0, 0), entry(1, 1), entry(2, 1))
    while (block := store.gather()) is not None:
        block.write(store.journal)
        end(block)
    append(SECOND, 1, (2, 1), entry(3, 1))
    slow = begin()  # the sync of this block takes long
    # Meanwhile another shard of this broker queues a whole block.
    for number in range(8):
        payload = build_batch([(None, b"v" * 2_000, (), NOW)], base_offset=number, leader_epoch=1)
        row = Entry(BATCH, payload, partition=0, base_offset=number, record_count=1)
        row.index, row.term, row.append_time = number + 1, 1, NOW
        store.append(busy, [row])
    # THIRD leads term 2 with the votes of 3, 4 and 5, and its entry 3 replaces the old one on this broker.
    append(THIRD, 2, (2, 1), entry(3, 2))
    # SECOND leads term 3 with the votes of 2, 4 and 5, which do not have the entry of term 2.  SECOND still has entry 3
    # of term 1, which replaces the entry of term 2 on this broker.
    append(SECOND, 3, (2, 1), entry(3, 1))
    transport.sent.clear()

    end(slow)  # this block was queued in term 1
    end(begin())  # this block has the votes and the truncation, and is filled up with rows of the other shard

    answered = [it.match_index for to, it in transport.sent if to == SECOND and isinstance(it, AppendEntriesResponse)]
    found, _ = open_store(disk.after_power_loss(ALL_LOST), KEY, OPTIONS)
    left = found.shards[ShardId(1)]
    assert max(answered, default=0) <= left.last_index, (
        f"term {shard.replica.term}: acknowledged {answered}, durable_index {shard.replica.durable_index}; "
        f"after a power loss the log ends at {left.last_index}"
    )
