"""The state of a partition's files, as encoded in checkpoints, snapshot offers and the rows of an install.

Other state that is derived from entries is in the sections of shard state machines
(`storage/machine/machine_sections.py`).  Byte table: `docs/formats/journal.md`.
"""

from dataclasses import dataclass, field
from struct import Struct
from typing import Final, NamedTuple

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.entry import decode_voters
from tidemill.raft.voters import Membership
from tidemill.storage.partition.leader_epochs import EpochStart

_PARTITION: Final = Struct(">IqqqI")
_SEGMENT: Final = Struct(">qqqq")
_EPOCH: Final = Struct(">qqQ")
COUNT: Final = Struct(">I")


class SegmentState(NamedTuple):
    base_offset: int
    size: int
    max_timestamp: int
    created_at: int


@dataclass(slots=True, kw_only=True)
class PartitionState:
    partition: int
    log_start: int
    trimmed: int
    end_offset: int
    segments: list[SegmentState] = field(default_factory=list)  # empty in a snapshot: segments differ between replicas
    epochs: list[EpochStart] = field(default_factory=list)

    def holds(self, offset: int) -> bool:
        """Return whether a segment contains `offset`, even if it is below the log start."""
        return any(segment.base_offset <= offset for segment in self.segments) and offset < self.end_offset


class ByteReader:
    """A cursor over bytes whose CRC has been checked.  Its methods raise struct.error if the bytes end early."""

    def __init__(self, data: bytes | memoryview, at: int = 0) -> None:
        self.data = data
        self.at = at

    def numbers(self, struct: Struct) -> tuple[int, ...]:
        values = struct.unpack_from(self.data, self.at)
        self.at += struct.size
        return values

    def count(self) -> int:
        return self.numbers(COUNT)[0]

    def bytes(self, length: int) -> bytes:
        self.at += length
        return bytes(self.data[self.at - length : self.at])

    def membership(self) -> Membership:
        voters, self.at = decode_voters(self.data, self.at)
        learners, self.at = decode_voters(self.data, self.at)
        return Membership(voters, learners)

    def vote(self) -> ReplicaKey | None:
        if self.bytes(1) == b"\x00":
            return None
        return decode_voters(b"\x00\x01" + self.bytes(20))[0][0]

    def partitions(self) -> list[PartitionState]:
        return [self._partition() for _ in range(self.count())]

    def _partition(self) -> PartitionState:
        number, log_start, trimmed, end_offset, segment_count = self.numbers(_PARTITION)
        state = PartitionState(partition=number, log_start=log_start, trimmed=trimmed, end_offset=end_offset)
        state.segments = [SegmentState(*self.numbers(_SEGMENT)) for _ in range(segment_count)]
        state.epochs = [EpochStart(*self.numbers(_EPOCH)) for _ in range(self.count())]
        return state


def encode_partitions(states: list[PartitionState]) -> bytes:
    return COUNT.pack(len(states)) + b"".join([_encode(state) for state in states])


def _encode(state: PartitionState) -> bytes:
    parts = [_PARTITION.pack(state.partition, state.log_start, state.trimmed, state.end_offset, len(state.segments))]
    parts += [_SEGMENT.pack(*segment) for segment in state.segments]
    parts.append(COUNT.pack(len(state.epochs)))
    parts += [_EPOCH.pack(*start) for start in state.epochs]
    return b"".join(parts)
