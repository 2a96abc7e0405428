"""The bytes on disk: golden files, which these tests decode according to the tables of `docs/formats/journal.md`.

To rewrite the golden files after a change of a format and its version, run this file with `WRITE_GOLDEN=1`.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tidemill.batches.builder import build_batch
from tidemill.batches.checksum import crc32c
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId
from tidemill.raft.entry import BATCH, Entry, log_start, no_op, voters_change
from tidemill.raft.voters import Membership
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.storage.checkpoint.checkpoint import (
    ClosedShard,
    decode_checkpoint,
    encode_checkpoint,
    encode_closed,
    encode_shard,
)
from tidemill.storage.data_directory import DirectoryProblem, Identity, read_identity, write_identity
from tidemill.storage.install.install_row import installed_row, installing_row
from tidemill.storage.journal.journal import JournalPosition
from tidemill.storage.journal.journal_block import decode_header, decode_rows, encode_block
from tidemill.storage.journal.row import RowKind
from tidemill.storage.journal.shard_log import ShardDescriptor, damage_row, vote_row
from tidemill.storage.machine.default_machines import default_machines
from tidemill.storage.machine.machine_sections import UnknownSection, encode_section
from tidemill.storage.machine.producer_machine import encode_producers
from tidemill.storage.partition.leader_epochs import EpochStart
from tidemill.storage.partition.offset_index import OffsetIndex
from tidemill.storage.partition.partition_state import PartitionState, SegmentState
from tidemill.storage.partition.producer_states import ProducerBatch
from tidemill.storage.partition.tail_cache import TailCache

GOLDEN = Path(__file__).parent / "golden"
KEY = bytes(range(16))
VOTER = ReplicaKey(BrokerId(1), DirectoryId(b"d" * 16))
BATCH_BYTES = bytes(build_batch([(b"k", b"v", (), 1_700_000_000_000)], base_offset=42, leader_epoch=3))


def golden(name: str, data: bytes) -> bytes:
    """Return the bytes of a golden file, which must equal `data`."""
    path = GOLDEN / name
    if os.environ.get("WRITE_GOLDEN"):
        path.write_bytes(data)
    assert path.read_bytes() == data
    return data


def number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size])


def block() -> bytes:
    batch = Entry(BATCH, BATCH_BYTES, partition=2, base_offset=42, record_count=1, append_time=9, index=7, term=3)
    batch.position, batch.segment_base = 500, 40
    command = no_op(8)
    command.index, command.term = 6, 3
    rows = [(ShardId(5), vote_row(3, VOTER)), (ShardId(5), command), (ShardId(5), batch)]
    return b"".join(bytes(part) for part in encode_block(KEY, 12, 11, rows)[0])


def other_rows() -> bytes:
    """Return a block with the remaining kinds of rows and the remaining commands."""
    descriptor = ShardDescriptor(
        topic_id=TopicId(b"t" * 16),
        first_partition=4,
        partition_count=2,
        feature_level=1,
        membership=Membership((VOTER,)),
    )
    voters = voters_change(Membership((VOTER,), (VOTER,)).encode(), 0)
    voters.index, voters.term = 3, 2
    moved = log_start(5, 77, 9)
    moved.index, moved.term = 4, 2
    rows = [
        Entry(RowKind.OPENED, descriptor.encode()),
        voters,
        moved,
        Entry(RowKind.TRIMMED, b"", partition=5, base_offset=77),
        Entry(RowKind.TRUNCATE, b"", index=9),
        Entry(RowKind.CLOSED, b""),
        damage_row(5, 77, "rot"),
    ]
    return b"".join(bytes(part) for part in encode_block(KEY, 13, 12, [(ShardId(6), row) for row in rows])[0])


def checkpoint(hand: Any) -> bytes:
    """
    Return a checkpoint of a closed shard and an open one, which has committed batches, an uncommitted one, a segment,
    an epoch and a producer.
    """
    hand.append(2, producer_id=9, producer_epoch=0, base_sequence=0)
    hand.write_all()
    hand.commit()
    hand.append(1)
    hand.write_all()
    sections = [encode_closed(ShardId(4), ClosedShard(2, None, 9, 1)), encode_shard(hand.shard)]
    return encode_checkpoint(KEY, 3, 17, JournalPosition(2, 8192), sections)


def test_a_journal_block() -> None:
    """A block has a header, a table of rows, the bytes of the rows, and zeros."""
    data = golden("block", block())

    assert (b"TMJB", 1, 3, 12, 11) == (
        data[:4],
        *(number(data, at, size) for at, size in ((8, 2), (12, 4), (16, 8), (24, 8))),
    )
    assert crc32c(KEY + data[8:64]) == number(data, 4, 4)
    assert (3 * 80, 20 + 1 + len(BATCH_BYTES)) == (number(data, 32, 8), number(data, 40, 8))
    assert crc32c(data[64 : 64 + 240]) == number(data, 48, 4)
    row = data[64 + 160 : 64 + 240]
    fields = ((0, 8), (8, 8), (16, 8), (24, 1), (28, 4), (32, 8), (40, 4), (44, 4), (48, 8), (60, 4), (64, 8))
    assert [5, 7, 3, 1, 2, 42, 1, len(BATCH_BYTES), 9, 500, 40] == [number(row, at, size) for at, size in fields]
    assert crc32c(BATCH_BYTES) == number(row, 56, 4)
    end = 64 + 240 + 21 + len(BATCH_BYTES)
    assert BATCH_BYTES == data[end - len(BATCH_BYTES) : end]
    assert VOTER.broker_id.to_bytes(4) + VOTER.directory_id == data[304:324]
    assert (0, bytes(len(data) - end)) == (len(data) % 4096, data[end:])


def test_a_golden_block_is_read() -> None:
    """A golden block is read, because later versions of the program must be able to read it."""
    data = (GOLDEN / "block").read_bytes()

    header = decode_header(KEY, data)
    assert header is not None
    rows = decode_rows(header, memoryview(data))

    assert rows is not None
    assert [(16, 0), (3, 6), (1, 7)] == [(entry.kind, entry.index) for _, entry in rows]


def test_a_journal_block_of_control_rows_and_commands() -> None:
    """These rows open, trim, truncate and close a shard, change its voters, move a log start, and mark damage."""
    data = golden("block-of-control-rows", other_rows())

    table = [data[64 + 80 * index : 64 + 80 * (index + 1)] for index in range(7)]
    lengths = [number(row, 44, 4) for row in table]
    assert [18, 3, 3, 20, 17, 19, 24] == [number(row, 24, 1) for row in table]
    assert [50, 45, 13, 0, 0, 0, 3] == lengths
    at = 64 + 7 * 80
    descriptor, voters, moved = (data[at : at + 50], data[at + 50 : at + 95], data[at + 95 : at + 108])
    voter = VOTER.broker_id.to_bytes(4) + VOTER.directory_id
    assert (b"t" * 16, 4, 2, 1, 1, voter) == (
        descriptor[:16],
        *(number(descriptor, *field) for field in ((16, 4), (20, 4), (24, 2), (26, 2))),
        descriptor[28:48],
    )
    assert bytes(2) == descriptor[48:]  # no learners
    found = (voters[0], number(voters, 1, 2), voters[3:23], number(voters, 23, 2), voters[25:])
    assert (2, 1, voter, 1, voter) == found
    assert (1, 5, 77) == (moved[0], number(moved, 1, 4), number(moved, 5, 8))
    assert (5, 77) == (number(table[3], 28, 4), number(table[3], 32, 8))
    assert number(table[4], 8, 8) == 9
    damaged = (number(table[6], 28, 4), number(table[6], 32, 8), data[at + 108 : at + 111])
    assert (5, 77, b"rot") == damaged
    header = decode_header(KEY, data)
    assert header is not None
    assert decode_rows(header, memoryview(data)) is not None


def test_the_rows_of_an_install() -> None:
    """
    The first row contains the state of the files when the install begins, the second the state of the shard when it
    ends.
    """
    state = PartitionState(partition=4, log_start=5, trimmed=5, end_offset=9)
    state.segments = [SegmentState(3, 700, 88, 77)]
    state.epochs = [EpochStart(2, 5, 30)]
    producers = encode_producers({6: (ProducerBatch(1, 2, 3, 4, 5, 6, 7),)})
    sections = (1).to_bytes(4) + encode_section(2, 1, {4: producers})
    rows = [
        (ShardId(6), installing_row(40, 2, [state])),
        (ShardId(6), installed_row(40, 2, 99, Membership((VOTER,)), [state], sections)),
    ]

    data = golden("block-of-install", b"".join(bytes(part) for part in encode_block(KEY, 14, 13, rows)[0]))

    table = [data[64 + 80 * index : 64 + 80 * (index + 1)] for index in range(2)]
    assert [(21, 40, 2), (22, 40, 2)] == [(number(row, 24, 1), number(row, 8, 8), number(row, 16, 8)) for row in table]
    lengths = [number(row, 44, 4) for row in table]
    partition = [(0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 4), (36, 8), (44, 8), (52, 8), (60, 8), (68, 4)]
    epochs = [(72, 8), (80, 8), (88, 8)]
    begun = data[64 + 160 : 64 + 160 + lengths[0]]
    ended = data[64 + 160 + lengths[0] : 64 + 160 + sum(lengths)]
    wanted = [1, 4, 5, 5, 9, 1, 3, 700, 88, 77, 1, 2, 5, 30]
    assert wanted == [number(begun, *field) for field in partition + epochs]
    assert 96 == len(begun)
    assert (99, 1, 0) == (number(ended, 0, 8), number(ended, 8, 2), number(ended, 30, 2))
    ended = ended[32:]
    assert wanted == [number(ended, *field) for field in partition + epochs]
    section = [(96, 4), (100, 2), (102, 2), (104, 4), (108, 4), (112, 4)]  # one section: producer states, partition 4
    assert [1, 2, 1, 66, 4, 58] == [number(ended, *field) for field in section]
    batch = [(132, 2), (134, 4), (138, 4), (142, 8), (150, 8), (158, 8), (166, 8)]
    head = [(116, 4), (120, 8), (128, 4)]
    assert [1, 6, 1, 1, 2, 3, 4, 5, 6, 7] == [number(ended, *field) for field in [*head, *batch]]
    assert 174 == len(ended)


def test_a_checkpoint_of_a_shard_that_installs(hand: Any) -> None:
    """
    The checkpoint contains the index of the snapshot, the damage, and the last entry before the install, which vote
    requests use.
    """
    hand.append(4)
    hand.write_all()
    hand.shard.commit(2)
    kept = [partition.state() for partition in hand.shard.partitions.values()]
    hand.store.install(hand.shard, installing_row(40, 2, kept))
    hand.store.mark_damage(hand.shard, 0, 1, "rot")

    data = encode_checkpoint(KEY, 3, 17, JournalPosition(2, 8192), [encode_shard(hand.shard)])
    read = decode_checkpoint(
        SimulatedDisk(), TailCache(0), KEY, golden("checkpoint-of-install", data), default_machines()
    )

    assert read is not None
    log = read.shards[ShardId(1)]
    assert ((40, 2), 2, 4, 1, 5) == (
        log.installing,
        log.commit_index,
        log.last_index,
        log.term_at(log.last_index),
        log.first_index,
    )
    assert ("rot", True, {0: 1}) == (log.damage, log.is_marked, log.marked)
    assert kept == [partition.state() for partition in log.partitions.values()]
    at = 52 + 4 + 17 + 21 + 4 + 50  # the position after the shard descriptor
    damage = [number(data, at + 4 + 3 + place, size) for place, size in ((0, 4), (4, 4), (8, 8))]
    assert (3, b"rot", [1, 0, 1]) == (number(data, at, 4), data[at + 4 : at + 7], damage)


def test_a_checkpoint(hand: Any) -> None:
    """The test decodes every field of a checkpoint, up to the last byte."""
    data = golden("checkpoint", checkpoint(hand))
    at = 52

    def take(size: int) -> int:
        nonlocal at
        at += size
        return number(data, at - size, size)

    head = [(8, 2), (12, 4), (16, 8), (24, 8), (32, 4), (36, 8), (44, 8)]
    assert [6, 2, 3, 17, 2, 8192, len(data) - 52] == [number(data, *field) for field in head]
    assert (b"TMCP", crc32c(KEY + data[8:])) == (data[:4], number(data, 4, 4))
    assert [34, 4, 2, 2, 0, 9, 1] == [take(size) for size in (4, 8, 1, 8, 1, 8, 8)]  # the section of the closed shard
    assert len(data) - at - 4 == take(4)
    assert [1, 1, 1] == [take(size) for size in (8, 1, 8)]  # shard id, state (open), term
    assert [1, 1, int.from_bytes(b"d" * 16)] == [take(size) for size in (1, 4, 16)]  # vote
    descriptor = take(4)
    assert [int.from_bytes(b"t" * 16), 0, 2, 1] == [take(size) for size in (16, 4, 4, 2)]
    assert [1, 1] == [take(2), take(4)]
    at += 16
    at += 2
    assert 50 == descriptor
    assert 0 == take(4)  # no damage
    assert [2, 1, hand.shard.committed_append_time, 1, 1] == [
        take(size) for size in (8, 8, 8, 2, 4)
    ]  # snapshot index S, its term and append time, the voters
    at += 16 + 2
    assert 1 == take(4)  # the number of rows
    row_at = at
    at += 80
    assert [3, 1] == [number(data, row_at + 8, 8), number(data, row_at + 24, 1)]
    assert 2 == take(4)  # the number of partitions
    segment = hand.log.segments[0]
    assert [0, 0, 0, 3, 1] == [take(size) for size in (4, 8, 8, 8, 4)]
    assert [0, segment.size, segment.max_timestamp, segment.created_at] == [take(8) for _ in range(4)]
    assert [1, 1, 0, 1] == [take(size) for size in (4, 8, 8, 8)]  # the epoch table
    assert [1, 0, 0, 0, 0, 1, 1, 0, 1] == [take(size) for size in (4, 8, 8, 8, 4, 4, 8, 8, 8)]  # partition 1
    assert [1, 2, 1, len(data) - at - 12] == [take(size) for size in (4, 2, 2, 4)]  # sections: producer states
    assert [0, len(data) - at - 8] == [take(size) for size in (4, 4)]  # partition 0 and the size of its states
    assert [1, 9, 2] == [take(size) for size in (4, 8, 4)]  # one producer, its id, two batches
    for index in (1, 2):
        fields = [take(size) for size in (2, 4, 4, 8, 8, 8, 8)]
        assert [0, 0, 0, index - 1, index, index] == fields[:6]
    assert len(data) == at


@pytest.mark.parametrize(
    ("machine", "version", "sentence"),
    [
        (5, 1, r"state machine 5 \(transactions\), version 1; this program does not know that machine"),
        (2, 9, r"state machine 2 \(producer states\), version 9; this program reads version 1"),
        (99, 1, "state machine 99, version 1; this program does not know that machine"),
    ],
)
def test_a_checkpoint_with_an_unknown_section_is_refused(hand: Any, machine: int, version: int, sentence: str) -> None:
    """
    A start with an unknown section fails with a message that names the machine and the version, instead of dropping the
    state.
    """
    shard = encode_shard(hand.shard)
    assert shard.endswith(bytes(4))  # no sections
    shard = shard[:-4] + (1).to_bytes(4) + encode_section(machine, version, {0: b"state"})
    data = encode_checkpoint(KEY, 3, 17, JournalPosition(2, 8192), [shard])

    with pytest.raises(UnknownSection, match=sentence):
        decode_checkpoint(SimulatedDisk(), TailCache(0), KEY, data, default_machines())


def test_a_golden_checkpoint_is_read() -> None:
    """A golden checkpoint is read, because later versions of the program must be able to read it."""
    read = decode_checkpoint(
        SimulatedDisk(), TailCache(0), KEY, (GOLDEN / "checkpoint").read_bytes(), default_machines()
    )

    assert read is not None
    assert (3, 17, JournalPosition(2, 8192), 3) == (
        read.number,
        read.sequence,
        read.head,
        read.shards[ShardId(1)].last_index,
    )


def test_a_checkpoint_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version is checked before anything else in the checkpoint is interpreted."""
    with monkeypatch.context() as earlier:
        earlier.setattr("tidemill.storage.checkpoint.checkpoint.VERSION", 1)
        data = encode_checkpoint(KEY, 3, 17, JournalPosition(2, 8192), [])

    with pytest.raises(DirectoryProblem, match="version 1; this program reads version 6"):
        decode_checkpoint(SimulatedDisk(), TailCache(0), KEY, data, default_machines())


def test_an_identity() -> None:
    """The identity is stored as JSON, so that operators can read it."""
    disk = SimulatedDisk()
    identity = Identity(
        cluster_id="abcdefghijklmnopqrstuv",
        broker_id=BrokerId(1),
        directory_id=DirectoryId(b"d" * 16),
        journal_key=KEY,
    )
    write_identity(disk, identity)

    data = golden("identity.json", disk.open("identity.json").read(0, 1 << 16))

    assert {
        "format": 2,
        "cluster_id": "abcdefghijklmnopqrstuv",
        "broker_id": 1,
        "directory_id": (b"d" * 16).hex(),
        "journal_key": KEY.hex(),
        "is_initial_voter": True,
    } == json.loads(data)
    assert identity == read_identity(disk)


def test_a_segment(hand: Any) -> None:
    """A segment contains two batches, one after the other, and no other bytes."""
    hand.append(2, producer_id=9, producer_epoch=1, base_sequence=4, size=10)
    hand.write_all()

    path = hand.log.segments[0].path
    data = golden("segment.log", hand.disk.open(path).read(0, 1 << 16))

    assert "topics/" + (b"t" * 16).hex() + "/0/00000000000000000000.log" == path
    size = 12 + number(data, 8, 4)
    assert len(data) == 2 * size
    for offset, batch in enumerate((data[:size], data[size:])):
        head = [number(batch, *field) for field in ((0, 8), (8, 4), (12, 4), (16, 1), (21, 2), (23, 4))]
        assert [offset, size - 12, 1, 2, 0, 0] == head
        assert crc32c(batch[21:]) == number(batch, 17, 4)
        stamp = 1_010 + 10 * offset
        tail = [number(batch, *field) for field in ((27, 8), (35, 8), (43, 8), (51, 2), (53, 4), (57, 4))]
        assert [stamp, stamp, 9, 1, 4, 1] == tail
        value = b"%06d" % offset + b"v" * 10
        assert b"\x2c\0\0\0\x01\x20" + value + b"\0" == batch[61:]  # zigzag: 22, …, −1 (no key), 16, …, 0 headers


def test_a_segment_index() -> None:
    """An index has a header of 18 bytes and three columns."""
    index = OffsetIndex()
    index.add(0, 0, -1, 4096, 3)
    index.add(10, 5_000, 1_700_000_000_000, 4096, 7)

    data = golden("segment.index", index.encode() or b"")

    assert (b"TMIX", 2, crc32c(data[10:]), 7, 2) == (
        data[:4],
        *(number(data, at, size) for at, size in ((4, 2), (6, 4), (10, 4), (14, 4))),
    )
    assert [0, 10, 0, 5_000] == [number(data, at, 4) for at in range(18, 34, 4)]
    assert [(1 << 64) - 1, 1_700_000_000_000] == [number(data, at, 8) for at in (34, 42)]
    again = OffsetIndex.decode(data, 6_000)
    assert again is not None
    assert data == again.encode()


@pytest.fixture
def hand(make_hand: Any) -> Any:
    return make_hand()
