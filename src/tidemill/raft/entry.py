"""One entry of a shard's log, as Raft, storage and peers see it.

An entry is a record batch of one partition, or a command, which has no offset.  The kind REFERENCE is reserved for
batches in an object store.  Storage writes an entry as a row of the journal; control rows have other kinds
(`storage/journal/row.py`).
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


class Command(IntEnum):
    """The kind of a command: the first byte of its payload."""

    NO_OP = 0
    LOG_START = 1
    VOTERS = 2


BATCH: Final = int(Kind.BATCH)
COMMAND: Final = int(Kind.COMMAND)
_NAMES: Final = {int(kind): kind.name for kind in Kind}


class Entry:
    """
    One entry of a shard's log.  A leader creates an entry, and `propose` sets its index and term.  From then on it is
    read-only, except for its position on this replica.
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
        self.payload = payload  # None once the segment holds the bytes and nothing in memory needs them
        self.partition = partition
        self.base_offset = base_offset
        self.record_count = record_count
        self.append_time = append_time  # ms since the epoch; never decreases within a shard
        self.index = index
        self.term = term
        # Where this replica's segment holds the payload: never sent to a peer, and never compared between replicas.
        self.segment_base = 0
        self.position = 0
        self.header: BatchHeader | None = None  # a BATCH's header, as it was before offset and epoch were stamped
        self.crc: int | None = None  # the CRC-32C of the payload, once `checksum` has computed it

    def checksum(self) -> int:
        """
        Return the CRC-32C of the payload.  The payload never changes, so one checksum serves the journal and all peers.
        """
        crc = self.crc
        if crc is None:
            assert self.payload is not None, f"{self} has lost its bytes"
            # A header is set only if this broker has checked and stamped the batch, so the CRC in the batch is right.
            crc = self.crc = crc32c(self.payload) if self.header is None else checksum_of_verified(self.payload)
        return crc

    def __repr__(self) -> str:
        name = _NAMES.get(self.kind, self.kind)
        return f"Entry({name} {self.index}@{self.term} partition {self.partition}+{self.base_offset})"


def encode_voters(voters: tuple[ReplicaKey, ...]) -> bytes:
    return len(voters).to_bytes(2) + b"".join(v.broker_id.to_bytes(4) + v.directory_id for v in voters)


def decode_voters(data: Buffer, position: int = 0) -> tuple[tuple[ReplicaKey, ...], int]:
    """Return the voters encoded at `position`, and the position after them."""
    count = int.from_bytes(data[position : position + 2])
    position += 2
    voters = []
    for _ in range(count):
        broker_id = BrokerId(int.from_bytes(data[position : position + 4]))
        voters.append(ReplicaKey(broker_id, DirectoryId(bytes(data[position + 4 : position + 20]))))
        position += 20
    return tuple(voters), position


def no_op(append_time: int) -> Entry:
    """Return the first entry of a leader's term: committing it commits every entry before it."""
    return Entry(COMMAND, bytes((Command.NO_OP,)), append_time=append_time)


def voters_change(membership: bytes, append_time: int) -> Entry:
    """Return the entry that puts a membership in force.  `membership` is encoded by `voters.Membership.encode`."""
    return Entry(COMMAND, bytes((Command.VOTERS,)) + membership, append_time=append_time)


def log_start(partition: int, offset: int, append_time: int) -> Entry:
    """Return the entry that deletes the records of `partition` below `offset` on every replica."""
    payload = bytes((Command.LOG_START,)) + partition.to_bytes(4) + offset.to_bytes(8)
    return Entry(COMMAND, payload, partition=partition, append_time=append_time)


def read_log_start(payload: Buffer) -> tuple[int, int]:
    """Return the partition and the new log start offset of a LOG_START command."""
    return int.from_bytes(payload[1:5]), int.from_bytes(payload[5:13])
