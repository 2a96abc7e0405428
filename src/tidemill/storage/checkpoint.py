"""The checkpoint's bytes: the state of exactly the blocks up to P.  Byte table: `docs/formats/journal.md`."""

from dataclasses import dataclass, field
from struct import Struct, error
from typing import Final

from tidemill.batches.checksum import crc32c
from tidemill.model.broker_id import Voter
from tidemill.model.shard import ShardId
from tidemill.raft.entry import COMMAND, decode_voters
from tidemill.raft.voters import Membership
from tidemill.storage import paths
from tidemill.storage.data_directory import DirectoryProblem
from tidemill.storage.disk import Disk
from tidemill.storage.journal import Place
from tidemill.storage.leader_epochs import EpochStart, uncovered
from tidemill.storage.partition_log import PartitionLog
from tidemill.storage.producer_states import ProducerBatch
from tidemill.storage.queued_rows import QueuedRows, VoteBefore
from tidemill.storage.row import ROW_BYTES, decode_row, encode_row
from tidemill.storage.segment import Segment
from tidemill.storage.shard_log import Opening, ShardLog
from tidemill.storage.tail_cache import TailCache

MAGIC: Final = b"TMCP"
VERSION: Final = 2  # 1 had no learners
OPEN: Final = 1
CLOSED: Final = 2
_HEADER: Final = Struct(">4sIH2xIQQIQQ")  # 52 bytes
_AFTER_CRC: Final = 8
_SHARD: Final = Struct(">QBQ")
_BOUNDARY: Final = Struct(">QQq")
_PARTITION: Final = Struct(">IqqqI")
_SEGMENT: Final = Struct(">qqqq")
_EPOCH: Final = Struct(">qqQ")
_PRODUCER: Final = Struct(">qI")
_PRODUCER_BATCH: Final = Struct(">hIIqqQq")
_COUNT: Final = Struct(">I")
NOTHING_QUEUED: Final = QueuedRows()


@dataclass(slots=True)
class ClosedShard:
    """What is left of a shard that does not live here any more."""

    term: int
    voted_for: Voter | None


@dataclass(slots=True, kw_only=True)
class Checkpoint:
    number: int
    sequence: int  # P
    head: Place  # where the block after P begins
    shards: dict[ShardId, ShardLog] = field(default_factory=dict)
    closed: dict[ShardId, ClosedShard] = field(default_factory=dict)
    data: bytes = b""  # as it was read


def encode_checkpoint(key: bytes, number: int, sequence: int, head: Place, sections: list[bytes]) -> bytes:
    body = b"".join([_COUNT.pack(len(section)) + section for section in sections])
    header = _HEADER.pack(MAGIC, 0, VERSION, len(sections), number, sequence, head.number, head.position, len(body))
    crc = crc32c(body, crc32c(header[_AFTER_CRC:], crc32c(key)))
    return header[:4] + crc.to_bytes(4) + header[_AFTER_CRC:] + body


def _encode_vote(voter: Voter | None) -> bytes:
    return b"\x00" if voter is None else b"\x01" + voter.broker_id.to_bytes(4) + voter.directory_id


def encode_closed(shard_id: ShardId, closed: ClosedShard) -> bytes:
    return _SHARD.pack(shard_id, CLOSED, closed.term) + _encode_vote(closed.voted_for)


def encode_shard(log: ShardLog, queued: QueuedRows = NOTHING_QUEUED) -> bytes:
    """The section of an open shard, as it is but for what is queued."""
    saved = log.commit_index
    last = log.last_index if queued.first_index is None else queued.first_index - 1
    opening = log.opening.encode()
    vote = queued.vote or VoteBefore(log.term, log.voted_for)
    parts = [
        _SHARD.pack(log.shard_id, OPEN, vote.term),
        _encode_vote(vote.voted_for),
        _COUNT.pack(len(opening)),
        opening,
        _BOUNDARY.pack(saved, log.term_at(saved), log.last_append_time),
        log.memberships[0][1].encode(),
        _COUNT.pack(last - saved),
    ]
    for index in range(saved + 1, last + 1):
        entry = log.entry_at(index)
        payload = entry.payload
        if entry.kind != COMMAND:
            entry.payload = b""  # its bytes lie in the segment; the row says where
        parts.append(encode_row(log.shard_id, entry))
        entry.payload = payload
        if entry.kind == COMMAND:
            assert payload is not None, f"{entry} has lost its command"
            parts.append(bytes(payload))
    parts.append(_COUNT.pack(len(log.partitions)))
    for partition in log.partitions.values():
        parts.append(_encode_partition(partition, log.term_start(last), saved, last, queued))
    return b"".join(parts)


def _encode_partition(
    log: PartitionLog, term_start: tuple[int, int], saved: int, last: int, queued: QueuedRows
) -> bytes:
    log_start, settled, epochs, end_offset = log.log_start, log.settled, log.epochs.starts, log.end_offset
    segments = log.segments
    if before := queued.settled.get(log.partition):
        log_start, settled, epochs = before[0].log_start, before[0].settled, before[0].epochs
        segments = [*(segment for settling in before for segment in settling.removed), *segments]
    sizes = [(segment, segment.size) for segment in segments if segment.size]
    if first := queued.firsts.get(log.partition):
        end_offset = first.base_offset
        sizes = [
            (segment, first.position if segment.base_offset == first.segment_base else size)
            for segment, size in sizes
            if segment.base_offset < first.segment_base + (first.position > 0)
        ]
    epochs = uncovered([start for start in epochs if start.log_index <= last], term_start, end_offset)
    parts = [_PARTITION.pack(log.partition, log_start, settled, end_offset, len(sizes))]
    parts += [_SEGMENT.pack(s.base_offset, size, s.max_timestamp, s.created_at) for s, size in sizes]
    parts.append(_COUNT.pack(len(epochs)))
    parts += [_EPOCH.pack(*start) for start in epochs]
    producers = log.producers.saved(saved, last)
    parts.append(_COUNT.pack(len(producers)))
    for producer_id, batches in producers.items():
        parts.append(_PRODUCER.pack(producer_id, len(batches)))
        parts += [_PRODUCER_BATCH.pack(*batch) for batch in batches]
    return b"".join(parts)


class _Reader:
    """A cursor over a checkpoint whose CRC has been checked."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def numbers(self, struct: Struct) -> tuple[int, ...]:
        values = struct.unpack_from(self.data, self.at)
        self.at += struct.size
        return values

    def count(self) -> int:
        return self.numbers(_COUNT)[0]

    def bytes(self, length: int) -> bytes:
        self.at += length
        return self.data[self.at - length : self.at]

    def membership(self) -> Membership:
        voters, self.at = decode_voters(self.data, self.at)
        learners, self.at = decode_voters(self.data, self.at)
        return Membership(voters, learners)

    def vote(self) -> Voter | None:
        if self.bytes(1) == b"\x00":
            return None
        return decode_voters(b"\x00\x01" + self.bytes(20))[0][0]


def decode_checkpoint(disk: Disk, cache: TailCache, key: bytes, data: bytes) -> Checkpoint | None:
    """The state that `data` holds; None when it is no whole checkpoint of this directory."""
    if len(data) < _HEADER.size or data[:4] != MAGIC:
        return None
    _, crc, version, shard_count, number, sequence, file, position, length = _HEADER.unpack_from(data)
    data = data[: _HEADER.size + length]
    if len(data) != _HEADER.size + length or crc32c(data[_AFTER_CRC:], crc32c(key)) != crc:
        return None
    if version != VERSION:
        raise DirectoryProblem(f"the checkpoint has version {version}; this program reads version {VERSION}")
    checkpoint = Checkpoint(number=number, sequence=sequence, head=Place(file, position), data=data)
    reader = _Reader(data, _HEADER.size)
    for _ in range(shard_count):
        reader.count()
        shard, state, term = reader.numbers(_SHARD)
        shard_id = ShardId(shard)
        voted_for = reader.vote()
        if state == CLOSED:
            checkpoint.closed[shard_id] = ClosedShard(term, voted_for)
            continue
        log = ShardLog(disk, cache, shard_id, Opening.decode(reader.bytes(reader.count())))
        log.term, log.voted_for = term, voted_for
        _read_shard(reader, log)
        checkpoint.shards[shard_id] = log
    return checkpoint


def _read_shard(reader: _Reader, log: ShardLog) -> None:
    saved, saved_term, log.last_append_time = reader.numbers(_BOUNDARY)
    log.restore_boundary(saved, saved_term)
    log.memberships = [(0, reader.membership())]
    for _ in range(reader.count()):
        _, entry, length, _ = decode_row(reader.data, reader.at)
        reader.at += ROW_BYTES
        if entry.kind == COMMAND:
            entry.payload = reader.bytes(length)
        log.remember(entry)
    for _ in range(reader.count()):
        number, log_start, settled, end_offset, segment_count = reader.numbers(_PARTITION)
        partition = log.partitions[number]
        partition.log_start, partition.settled, partition.end_offset = log_start, settled, end_offset
        for _ in range(segment_count):
            base, size, max_timestamp, created_at = reader.numbers(_SEGMENT)
            segment = Segment(partition.directory, base, size=size, max_timestamp=max_timestamp, created_at=created_at)
            partition.segments.append(segment)
        partition.epochs.starts = [EpochStart(*reader.numbers(_EPOCH)) for _ in range(reader.count())]
        producers = {}
        for _ in range(reader.count()):
            producer_id, batch_count = reader.numbers(_PRODUCER)
            batches = tuple(ProducerBatch(*reader.numbers(_PRODUCER_BATCH)) for _ in range(batch_count))
            producers[producer_id] = batches
        partition.producers.load(producers)


def newest_checkpoint(disk: Disk, cache: TailCache, key: bytes) -> Checkpoint | None:
    """The newer of the two that are whole; None when neither is."""
    found = []
    for parity in (0, 1):
        path = paths.checkpoint_file(parity)
        if not disk.exists(path):
            continue
        file = disk.open(path)
        try:
            checkpoint = decode_checkpoint(disk, cache, key, file.read(0, file.size()))
        except error:
            checkpoint = None
        finally:
            file.close()
        if checkpoint is not None:
            found.append(checkpoint)
    return max(found, key=lambda checkpoint: checkpoint.number, default=None)


def write_checkpoint(disk: Disk, number: int, data: bytes) -> None:
    """Over the older of the two files; durable when this returns, the name of a new one too."""
    file = disk.open(paths.checkpoint_file(number), create=True)
    try:
        file.write(0, [data])
        file.truncate(len(data))
        file.sync()
    finally:
        file.close()
    disk.sync_directory("")
