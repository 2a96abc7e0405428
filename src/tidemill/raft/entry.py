"""One step of a shard's log, as Raft, storage and peers know it.

An entry is a record batch of one partition, a reference to one, or a command of Raft's own (which takes no offset).
Storage writes an entry as a row (`docs/formats/journal.md`); the kinds from 16 on are rows that are no entries.
"""

from enum import IntEnum
from typing import Final

from tidemill.batches.batch import BatchHeader, checksum_of_verified
from tidemill.batches.checksum import crc32c
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey

Buffer = bytes | bytearray | memoryview


class Kind(IntEnum):
    BATCH = 1
    REFERENCE = 2
    COMMAND = 3
    VOTE = 16
    TRUNCATE = 17
    OPENED = 18
    CLOSED = 19
    TRIMMED = 20
    INSTALLING = 21
    INSTALLED = 22
    PART = 23
    DAMAGED = 24


class Command(IntEnum):
    """The first byte of a COMMAND's payload."""

    NO_OP = 0
    LOG_START = 1
    VOTERS = 2


BATCH: Final = int(Kind.BATCH)
COMMAND: Final = int(Kind.COMMAND)


class Entry:
    """
    Made by the leader that appends it; `propose` gives it index and term.  Read-only from then on, but for its place.
    """

    __slots__ = (
        "append_time",
        "base_offset",
        "crc",
        "header",
        "index",
        "kind",
        "partition",
        "payload",
        "payload_bytes",
        "position",
        "record_count",
        "segment_base",
        "term",
    )

    def __init__(
        self,
        kind: int,
        payload: Buffer | None,
        partition: int = 0,
        base_offset: int = 0,
        record_count: int = 0,
        append_time: int = 0,
        *,
        index: int = 0,
        term: int = 0,
    ) -> None:
        self.kind = kind
        self.payload_bytes = len(payload) if payload is not None else 0
        self.payload = payload  # None once the bytes lie in the segment and nothing here needs them any more
        self.partition = partition
        self.base_offset = base_offset
        self.record_count = record_count
        self.append_time = append_time  # ms since the epoch; never goes back within a shard
        self.index = index
        self.term = term
        # Where the bytes lie on this replica.  Never sent to a peer and never compared.
        self.segment_base = 0
        self.position = 0
        self.header: BatchHeader | None = None  # of a BATCH that was read before its offset and epoch were stamped
        self.crc: int | None = None  # of its bytes, once somebody has asked

    def checksum(self) -> int:
        """CRC-32C of the bytes.  They never change: the journal and every peer are told what was counted once."""
        crc = self.crc
        if crc is None:
            assert self.payload is not None, f"{self} has lost its bytes"
            # What this broker has stamped it has checked: a header is kept of nothing else.
            crc = self.crc = crc32c(self.payload) if self.header is None else checksum_of_verified(self.payload)
        return crc

    def __repr__(self) -> str:
        return f"Entry({Kind(self.kind).name} {self.index}@{self.term} partition {self.partition}+{self.base_offset})"


def encode_voters(voters: tuple[ReplicaKey, ...]) -> bytes:
    return len(voters).to_bytes(2) + b"".join(v.broker_id.to_bytes(4) + v.directory_id for v in voters)


def decode_voters(data: Buffer, position: int = 0) -> tuple[tuple[ReplicaKey, ...], int]:
    """The voters, and the position behind them."""
    count = int.from_bytes(data[position : position + 2])
    position += 2
    voters = []
    for _ in range(count):
        broker_id = BrokerId(int.from_bytes(data[position : position + 4]))
        voters.append(ReplicaKey(broker_id, DirectoryId(bytes(data[position + 4 : position + 20]))))
        position += 20
    return tuple(voters), position


def no_op(append_time: int) -> Entry:
    """A leader's first entry: what commits everything before it."""
    return Entry(COMMAND, bytes((Command.NO_OP,)), append_time=append_time)


def voters_change(membership: bytes, append_time: int) -> Entry:
    """From here on these are the shard's members (`voters.Membership.encode`)."""
    return Entry(COMMAND, bytes((Command.VOTERS,)) + membership, append_time=append_time)


def log_start(partition: int, offset: int, append_time: int) -> Entry:
    """Records of `partition` below `offset` are gone, on every replica."""
    payload = bytes((Command.LOG_START,)) + partition.to_bytes(4) + offset.to_bytes(8)
    return Entry(COMMAND, payload, partition=partition, append_time=append_time)


def read_log_start(payload: Buffer) -> tuple[int, int]:
    """(partition, new log start offset) of a LOG_START command."""
    return int.from_bytes(payload[1:5]), int.from_bytes(payload[5:13])
