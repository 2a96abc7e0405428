"""A checkpoint is read back as it was written, and rejected if a byte of it is wrong."""

from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId
from tidemill.raft.voters import Membership
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.storage.checkpoint.checkpoint import (
    ClosedShard,
    decode_checkpoint,
    encode_checkpoint,
    encode_closed,
    encode_shard,
    newest_checkpoint,
    write_checkpoint,
)
from tidemill.storage.journal.journal import JournalPosition
from tidemill.storage.journal.shard_log import ShardDescriptor, ShardLog
from tidemill.storage.machine.default_machines import default_machines
from tidemill.storage.partition.leader_epochs import EpochStart
from tidemill.storage.partition.partition_state import ByteReader
from tidemill.storage.partition.producer_states import ProducerBatch
from tidemill.storage.partition.segment import Segment
from tidemill.storage.partition.tail_cache import TailCache

KEY = b"k" * 16
VOTER = ReplicaKey(BrokerId(3), DirectoryId(b"d" * 16))
LONG = st.integers(0, (1 << 63) - 1)
INT = st.integers(0, (1 << 31) - 1)
BATCHES = st.builds(ProducerBatch, st.integers(0, 9), INT, INT, LONG, LONG, LONG, LONG)
PARTITIONS = st.fixed_dictionaries(
    {
        "numbers": st.tuples(LONG, LONG, LONG),
        "segments": st.lists(st.tuples(LONG, st.integers(1, 1 << 31), st.integers(-1, 1 << 60), LONG), max_size=4),
        "epochs": st.lists(st.builds(EpochStart, LONG, LONG, st.just(0)), max_size=4),
        "producers": st.dictionaries(LONG, st.lists(BATCHES, min_size=1, max_size=5).map(tuple), max_size=4),
    }
)


def shard_of(partitions: list[dict[str, Any]], term: int, voted_for: ReplicaKey | None) -> ShardLog:
    descriptor = ShardDescriptor(
        topic_id=TopicId(b"t" * 16),
        first_partition=2,
        partition_count=len(partitions),
        feature_level=1,
        membership=Membership((VOTER,)),
    )
    log = ShardLog(SimulatedDisk(), TailCache(0), ShardId(8), descriptor, default_machines())
    log.term, log.voted_for = term, voted_for
    for partition, it in zip(log.partitions.values(), partitions, strict=True):
        partition.log_start, partition.trimmed, partition.end_offset = it["numbers"]
        for base, size, largest, created_at in it["segments"]:
            partition.segments.append(
                Segment(partition.directory, base, size=size, max_timestamp=largest, created_at=created_at)
            )
        partition.epochs.starts = it["epochs"]
        producers = {
            producer: tuple(batch._replace(log_index=0) for batch in batches)
            for producer, batches in it["producers"].items()
        }
        partition.producers.load(producers)
    return log


@settings(max_examples=80, deadline=None)
@given(st.lists(PARTITIONS, min_size=1, max_size=3), LONG, st.sampled_from([None, VOTER]))
def test_a_checkpoint_is_read_as_it_was_written(
    partitions: list[dict[str, Any]], term: int, voted_for: ReplicaKey | None
) -> None:
    """Encoding a decoded checkpoint gives the same bytes."""
    log = shard_of(partitions, term, voted_for)
    closed = ClosedShard(5, VOTER, 7, 3)
    sections = [encode_closed(ShardId(1), closed), encode_shard(log)]
    data = encode_checkpoint(KEY, 4, 77, JournalPosition(2, 8192), sections)

    read = decode_checkpoint(SimulatedDisk(), TailCache(0), KEY, data + b"what a longer one left", default_machines())

    assert read is not None
    assert (4, 77, JournalPosition(2, 8192), {1: closed}) == (read.number, read.sequence, read.head, read.closed)
    assert sections[1] == encode_shard(read.shards[ShardId(8)])
    assert data == read.data


@given(st.integers(0), st.integers(0, 7))
def test_no_flipped_bit_passes(at: int, bit: int) -> None:
    """
    No flipped bit in a checkpoint goes unnoticed: a wrong vote, for example, could let two leaders be elected in one
    term.
    """
    data = bytearray(
        encode_checkpoint(KEY, 4, 77, JournalPosition(2, 0), [encode_closed(ShardId(1), ClosedShard(5, VOTER, 7, 3))])
    )
    data[at % len(data)] ^= 1 << bit

    assert decode_checkpoint(SimulatedDisk(), TailCache(0), KEY, bytes(data), default_machines()) is None


def test_the_newer_of_two_is_taken_and_the_older_when_that_is_torn() -> None:
    """The two files are written alternately, so at least one of them is always intact."""
    disk = SimulatedDisk()
    for number in (4, 5):
        write_checkpoint(disk, number, encode_checkpoint(KEY, number, 77, JournalPosition(1, 0), []))

    newest = newest_checkpoint(disk, TailCache(0), KEY, default_machines())
    disk.open("checkpoint-1").write(20, [b"torn"])
    older = newest_checkpoint(disk, TailCache(0), KEY, default_machines())
    disk.open("checkpoint-0").truncate(30)

    assert (5, 4) == (newest and newest.number, older and older.number)
    assert newest_checkpoint(disk, TailCache(0), KEY, default_machines()) is None


def test_a_damaged_checkpoint_that_claims_the_highest_number_is_passed_over() -> None:
    """The number in a file decides which one is read first; only a whole file is a checkpoint."""
    disk = SimulatedDisk()
    for number in (4, 5):
        write_checkpoint(disk, number, encode_checkpoint(KEY, number, 77, JournalPosition(1, 0), []))
    disk.open("checkpoint-0").write(16, [b"\xff" * 8])

    newest = newest_checkpoint(disk, TailCache(0), KEY, default_machines())

    assert newest and newest.number == 5


def test_the_older_of_two_whole_checkpoints_is_not_decoded() -> None:
    """A start decodes the state of all shards once."""
    disk = SimulatedDisk()
    closed = encode_closed(ShardId(1), ClosedShard(5, VOTER, 7, 3))
    write_checkpoint(disk, 4, encode_checkpoint(KEY, 4, 70, JournalPosition(1, 0), [closed]))
    write_checkpoint(disk, 5, encode_checkpoint(KEY, 5, 77, JournalPosition(1, 0), []))

    with patch.object(ByteReader, "vote", side_effect=AssertionError("the older checkpoint was decoded")):
        newest = newest_checkpoint(disk, TailCache(0), KEY, default_machines())

    assert newest and newest.number == 5
