"""The encoding of a checkpoint: the state after exactly the blocks up to P.  Byte table: `docs/formats/journal.md`."""

from dataclasses import dataclass, field
from struct import Struct, error
from typing import Final

from tidemill.batches.checksum import crc32c
from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.raft.entry import BATCH, COMMAND
from tidemill.storage import paths
from tidemill.storage.data_directory import DirectoryProblem
from tidemill.storage.disk import Disk
from tidemill.storage.journal.journal import JournalPosition
from tidemill.storage.journal.queued_rows import QueuedRows, VoteBefore
from tidemill.storage.journal.row import ROW_BYTES, decode_row, encode_bare_row, encode_row
from tidemill.storage.journal.shard_log import ShardDescriptor, ShardLog
from tidemill.storage.machine.machine_sections import encode_sections, load_sections, read_sections
from tidemill.storage.machine.shard_machine import MachineRegistry
from tidemill.storage.partition.leader_epochs import uncovered
from tidemill.storage.partition.partition_log import PartitionLog
from tidemill.storage.partition.partition_state import COUNT, ByteReader, PartitionState, encode_partitions
from tidemill.storage.partition.tail_cache import TailCache

MAGIC: Final = b"TMCP"
VERSION: Final = 6  # 1 had no learners, 2 no installs, 3 no damage, 4 no machine sections, 5 no logs of closed shards
OPEN: Final = 1
CLOSED: Final = 2
INSTALLING: Final = 3
_HEADER: Final = Struct(">4sIH2xIQQIQQ")  # 52 bytes
_AFTER_CRC: Final = 8
_NUMBER: Final = 4  # the position of the checkpoint's number among the fields of the header
_SHARD: Final = Struct(">QBQ")
_BOUNDARY: Final = Struct(">QQq")
_DAMAGED: Final = Struct(">Iq")  # partition, and the offset from which the partition is damaged
# For an unfinished install: index and term of the snapshot, and of this replica's last entry before the install.
_INSTALLING: Final = Struct(">QQQQ")
_LAST: Final = Struct(">QQ")  # of a closed shard: index and term of the last entry
NOTHING_QUEUED: Final = QueuedRows()


@dataclass(slots=True)
class ClosedShard:
    """
    What a closed replica remembers if its shard is opened again: its term and vote, without which it could vote twice
    in a term, and the last entry of its log, without which it could vote for a candidate that lacks what it had.
    """

    term: int
    voted_for: ReplicaKey | None
    last_index: int
    last_term: int

    @classmethod
    def of(cls, log: ShardLog, last_index: int) -> "ClosedShard":
        return cls(log.term, log.voted_for, last_index, log.term_at(last_index))

    def restore(self, log: ShardLog) -> None:
        """
        Let `log`, which is empty, claim the last entry of the former replica in votes, and accept nothing but a
        snapshot, as after an install that has just begun.
        """
        log.term, log.voted_for = self.term, self.voted_for
        log.restore_boundary(self.last_index, self.last_term, 0)
        log.commit_index = 0
        log.begin_install(0, 0, [])


@dataclass(slots=True, kw_only=True)
class Checkpoint:
    number: int
    sequence: int  # P, the newest block that the checkpoint covers
    head: JournalPosition  # the position at which the block after P begins
    shards: dict[ShardId, ShardLog] = field(default_factory=dict)
    closed: dict[ShardId, ClosedShard] = field(default_factory=dict)
    data: bytes = b""  # the encoded checkpoint, as it was read


def encode_checkpoint(key: bytes, number: int, sequence: int, head: JournalPosition, sections: list[bytes]) -> bytes:
    """Return the file's bytes.  `sequence` is P, the newest covered block; `head` is where the block after P begins."""
    body = b"".join([COUNT.pack(len(section)) + section for section in sections])
    header = _HEADER.pack(MAGIC, 0, VERSION, len(sections), number, sequence, head.number, head.position, len(body))
    crc = crc32c(body, crc32c(header[_AFTER_CRC:], crc32c(key)))
    return header[:4] + crc.to_bytes(4) + header[_AFTER_CRC:] + body


def _encode_vote(voter: ReplicaKey | None) -> bytes:
    return b"\x00" if voter is None else b"\x01" + voter.broker_id.to_bytes(4) + voter.directory_id


def _encode_damage(log: ShardLog) -> bytes:
    """
    Encode the shard's damage, but only if a DAMAGED row marks it.  Unmarked damage is not stored, so that an operator
    can repair it by restoring a missing file.
    """
    problem = (log.damage or "").encode() if log.is_marked else b""
    if not problem:
        return COUNT.pack(0)
    positions = b"".join([_DAMAGED.pack(*position) for position in log.marked.items()])
    return COUNT.pack(len(problem)) + problem + COUNT.pack(len(log.marked)) + positions


def _read_damage(reader: ByteReader, log: ShardLog) -> None:
    problem = reader.bytes(reader.count())
    if problem:
        log.damage, log.is_marked = problem.decode(), True
        log.marked = dict(reader.numbers(_DAMAGED) for _ in range(reader.count()))  # type: ignore[misc]


def encode_closed(shard_id: ShardId, closed: ClosedShard) -> bytes:
    last = _LAST.pack(closed.last_index, closed.last_term)
    return _SHARD.pack(shard_id, CLOSED, closed.term) + _encode_vote(closed.voted_for) + last


def encode_shard(log: ShardLog, queued: QueuedRows = NOTHING_QUEUED) -> bytes:
    """Return the section of an open shard, without the changes made by rows that are queued but not in a block yet."""
    descriptor = log.descriptor.encode()
    vote = queued.vote or VoteBefore(log.term, log.voted_for)
    state = OPEN if log.installing is None else INSTALLING
    parts = [
        _SHARD.pack(log.shard_id, state, vote.term),
        _encode_vote(vote.voted_for),
        COUNT.pack(len(descriptor)),
        descriptor,
        _encode_damage(log),
    ]
    if log.installing is not None:
        claimed = log.last_index, log.term_at(log.last_index)
        parts += [
            _BOUNDARY.pack(log.commit_index, 0, log.last_append_time),
            _INSTALLING.pack(*log.installing, *claimed),
            log.memberships[-1][1].encode(),
            encode_partitions([partition.state() for partition in log.partitions.values()]),
        ]
        return b"".join(parts)
    saved = log.commit_index
    last = log.last_index if queued.first_index is None else queued.first_index - 1
    parts += [
        _BOUNDARY.pack(saved, log.term_at(saved), log.committed_append_time),
        log.memberships[0][1].encode(),
        COUNT.pack(last - saved),
    ]
    for index in range(saved + 1, last + 1):
        entry = log.entry_at(index)
        if entry.kind == COMMAND:
            assert entry.payload is not None, f"{entry} has lost its command"
            parts += (encode_row(log.shard_id, entry), bytes(entry.payload))
        else:
            parts.append(encode_bare_row(log.shard_id, entry))
    states = [state_of(log, partition, last, queued) for partition in log.partitions.values()]
    parts.append(encode_partitions(states))
    parts.append(encode_sections(log.machines, saved, last))
    return b"".join(parts)


def state_of(shard: ShardLog, log: PartitionLog, last: int, queued: QueuedRows) -> PartitionState:
    """Return the state of partition `log` as of the entry at `last`, without the changes made by the `queued` rows."""
    state = log.state()
    if first := queued.firsts.get(log.partition):
        state.end_offset = first.base_offset
        state.segments = [
            segment._replace(size=first.position) if segment.base_offset == first.segment_base else segment
            for segment in state.segments
            if segment.base_offset < first.segment_base + (first.position > 0)
        ]
    kept = [start for start in state.epochs if start.log_index <= last]
    state.epochs = uncovered(kept, shard.term_start(last), state.end_offset)
    return state


def decode_checkpoint(
    disk: Disk, cache: TailCache, key: bytes, data: bytes, machines: MachineRegistry
) -> Checkpoint | None:
    """
    Return the state in `data`; None if it is not a complete checkpoint of this directory.  Raises DirectoryProblem for
    an unsupported version or an unknown section, and struct.error if the lengths are inconsistent.
    """
    if len(data) < _HEADER.size or data[:4] != MAGIC:
        return None
    _, crc, version, shard_count, number, sequence, file, position, length = _HEADER.unpack_from(data)
    data = data[: _HEADER.size + length]
    if len(data) != _HEADER.size + length or crc32c(data[_AFTER_CRC:], crc32c(key)) != crc:
        return None
    if version != VERSION:
        raise DirectoryProblem(f"the checkpoint has version {version}; this program reads version {VERSION}")
    checkpoint = Checkpoint(number=number, sequence=sequence, head=JournalPosition(file, position), data=data)
    reader = ByteReader(data, _HEADER.size)
    for _ in range(shard_count):
        reader.count()
        shard, state, term = reader.numbers(_SHARD)
        shard_id = ShardId(shard)
        voted_for = reader.vote()
        if state == CLOSED:
            checkpoint.closed[shard_id] = ClosedShard(term, voted_for, *reader.numbers(_LAST))
            continue
        log = ShardLog(disk, cache, shard_id, ShardDescriptor.decode(reader.bytes(reader.count())), machines)
        log.term, log.voted_for = term, voted_for
        _read_damage(reader, log)
        (_read_shard if state == OPEN else _read_installing)(reader, log)
        checkpoint.shards[shard_id] = log
    return checkpoint


def _read_shard(reader: ByteReader, log: ShardLog) -> None:
    log.restore_boundary(*reader.numbers(_BOUNDARY))
    log.memberships = [(0, reader.membership())]
    for _ in range(reader.count()):
        _, entry, length, _ = decode_row(reader.data, reader.at)
        reader.at += ROW_BYTES
        if entry.kind == COMMAND:
            entry.payload = reader.bytes(length)
        log.remember(entry)
    log.restore_partitions(reader.partitions())
    load_sections(log.machines, read_sections(reader, log.machines))
    _measure_batches(log)


def _measure_batches(log: ShardLog) -> None:
    """Set the sizes of batches: a batch ends where the next batch of its segment begins."""
    ends = {
        (it.partition, segment.base_offset): segment.size for it in log.partitions.values() for segment in it.segments
    }
    for entry in reversed(log.entries):
        if entry.kind == BATCH:
            place = entry.partition, entry.segment_base
            entry.payload_bytes = ends.get(place, entry.position) - entry.position
            ends[place] = entry.position


def _read_installing(reader: ByteReader, log: ShardLog) -> None:
    committed, _, last_append_time = reader.numbers(_BOUNDARY)
    index, term, last_index, last_term = reader.numbers(_INSTALLING)
    log.restore_boundary(last_index, last_term, last_append_time)
    log.commit_index = committed
    log.memberships = [(0, reader.membership())]
    log.begin_install(index, term, reader.partitions())


def newest_checkpoint(disk: Disk, cache: TailCache, key: bytes, machines: MachineRegistry) -> Checkpoint | None:
    """
    Return the newest complete checkpoint; None if there is none.  The older one is decoded only if the newer one is not
    complete.  Raises DirectoryProblem, as `decode_checkpoint` does.
    """
    found = [data for parity in (0, 1) if (data := _read_file(disk, paths.checkpoint_file(parity)))]
    for data in sorted(found, key=_claimed_number, reverse=True):
        try:
            checkpoint = decode_checkpoint(disk, cache, key, data, machines)
        except error:
            continue
        if checkpoint is not None:
            return checkpoint
    return None


def _read_file(disk: Disk, path: str) -> bytes:
    """Return the bytes of a file, or none if it does not exist."""
    if not disk.exists(path):
        return b""
    file = disk.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def _claimed_number(data: bytes) -> int:
    """Return the number in the header, which may be damaged.  It decides only which file is decoded first."""
    return int(_HEADER.unpack_from(data)[_NUMBER]) if len(data) >= _HEADER.size else -1


def write_checkpoint(disk: Disk, number: int, data: bytes) -> None:
    """Overwrite the older of the two checkpoint files.  The file and its name are durable when this returns."""
    file = disk.open(paths.checkpoint_file(number), create=True)
    try:
        file.write(0, [data])
        file.truncate(len(data))
        file.sync()
    finally:
        file.close()
    disk.sync_directory("")
