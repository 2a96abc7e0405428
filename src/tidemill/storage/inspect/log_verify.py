"""`tidemill log verify`: check the checkpoints, the journal, and every batch that the newest checkpoint covers.

Read-only; a broker may be running in the directory.  Three things are not damage: a torn tail of the journal, bytes
that were never synced, and segment bytes of rows after the checkpoint, which the next start writes again from the
journal.  Apparent damage is checked again in a newer view, because a running broker may have changed the files between
two reads.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidemill.batches.batch import HEADER_BYTES, MAGIC, MAGIC_POSITION, crc_matches, read_header
from tidemill.storage import paths
from tidemill.storage.checkpoint.checkpoint import decode_checkpoint
from tidemill.storage.disk import Disk, File
from tidemill.storage.inspect.directory_view import DirectoryView, view_directory
from tidemill.storage.machine.default_machines import default_machines
from tidemill.storage.partition.partition_log import PartitionLog
from tidemill.storage.partition.segment import Segment
from tidemill.storage.partition.tail_cache import TailCache
from tidemill.storage.recovery import JournalDamaged

READ_BYTES: Final = 1 << 20
VIEWS_MAX: Final = 3  # damage is reported if three successive views show it


class Damage(NamedTuple):
    """A range of bytes that differ from what was written.  Unknown offsets are -1."""

    file: str
    position: int
    size: int
    offset: int
    end_offset: int  # exclusive
    problem: str


@dataclass(slots=True)
class Verified:
    """The result for the newest view: how much was checked, and what damage was found."""

    shards: int = 0
    segments: int = 0
    batches: int = 0
    bytes: int = 0
    blocks: int = 0
    damages: list[Damage] = field(default_factory=list)


def verify(disk: Disk) -> Verified:
    """Check the directory and return the result.  Raises DirectoryProblem if it is not a data directory."""
    verified = _verify_once(disk)
    for _ in range(VIEWS_MAX - 1):
        if not verified.damages:
            break
        again = _verify_once(disk)
        places = {(damage.file, damage.position) for damage in verified.damages}
        again.damages = [damage for damage in again.damages if (damage.file, damage.position) in places]
        verified = again
    return verified


def _verify_once(disk: Disk) -> Verified:
    verified = Verified()
    try:
        view = view_directory(disk)
    except JournalDamaged as problem:
        verified.damages.append(Damage(paths.JOURNAL, 0, 0, -1, -1, str(problem)))
        return verified
    try:
        verified.damages += _checkpoint_damages(disk, view)
        verified.damages += _journal_damages(view)
        verified.blocks = len(view.walked)
        for log in view.shards.values():
            verified.shards += 1
            for partition in log.partitions.values():
                verified.damages += _partition_damages(disk, partition, verified)
    finally:
        view.close()
    return verified


def _checkpoint_damages(disk: Disk, view: DirectoryView) -> Iterator[Damage]:
    for parity in (0, 1):
        path = paths.checkpoint_file(parity)
        if not disk.exists(path):
            if view.checkpoint.number > parity:
                yield Damage(path, 0, 0, -1, -1, "the file is missing; the other checkpoint is used")
            continue
        file = disk.open(path)
        try:
            data = file.read(0, file.size())
        finally:
            file.close()
        if decode_checkpoint(disk, TailCache(0), view.identity.journal_key, data, default_machines()) is None:
            problem = "the checkpoint is not whole (or its writing was cut off by a power loss); the other one is used"
            yield Damage(path, 0, len(data), -1, -1, problem)


def _journal_damages(view: DirectoryView) -> Iterator[Damage]:
    if view.synced > view.sequence:
        problem = f"block {view.sequence + 1} cannot be read, but was synced: block {view.synced} was on disk later"
        yield Damage(view.end_file, view.end_position, HEADER_BYTES, -1, -1, problem)


def _partition_damages(disk: Disk, log: PartitionLog, verified: Verified) -> Iterator[Damage]:
    segments = [segment for segment in log.segments if segment.written]
    for at, segment in enumerate(segments):
        verified.segments += 1
        end_offset = segments[at + 1].base_offset if at + 1 < len(segments) else log.end_offset
        if not disk.exists(segment.path):
            problem = f"the file is missing; it should have {segment.written} B"
            yield Damage(segment.path, 0, segment.written, segment.base_offset, end_offset, problem)
            continue
        file = disk.open(segment.path)
        try:
            yield from _segment_damages(file, segment, log, end_offset, verified)
        finally:
            file.close()


def _segment_damages(
    file: File, segment: Segment, log: PartitionLog, end_offset: int, verified: Verified
) -> Iterator[Damage]:
    """Check every batch of a segment: its CRC, its offset, and its epoch against the epoch table."""
    expected = segment.base_offset
    position, end = 0, segment.written
    data, start = b"", 0
    while position < end:
        at = position - start
        if at + HEADER_BYTES > len(data) or at + read_header(data, at).size_bytes > len(data):
            size = HEADER_BYTES if at + HEADER_BYTES > len(data) else read_header(data, at).size_bytes
            data, start, at = file.read(position, min(max(size, READ_BYTES), end - position)), position, 0
        if len(data) < HEADER_BYTES:
            problem = f"the file ends at byte {position + len(data)}; it should have {end} B"
            yield Damage(segment.path, position, end - position, expected, end_offset, problem)
            return
        header = read_header(data, at)
        size = header.size_bytes
        if not HEADER_BYTES <= size <= end - position:
            problem = f"a batch of {size} B does not fit before byte {end}; what lies behind it cannot be found"
            yield Damage(segment.path, position, end - position, expected, end_offset, problem)
            return
        if at + size > len(data):
            if start != position or len(data) < min(READ_BYTES, end - position):
                problem = f"the file ends at byte {start + len(data)}; it should have {end} B"
                yield Damage(segment.path, position, end - position, expected, end_offset, problem)
                return
            continue
        verified.batches += 1
        verified.bytes += size
        epoch = log.epochs.span_at(max(header.base_offset, log.log_start))[0]
        problem = ""
        if not crc_matches(data, at):
            problem = "the CRC of the batch does not match"
        elif data[at + MAGIC_POSITION] != MAGIC:
            problem = f"the magic of the batch is {data[at + MAGIC_POSITION]}; only {MAGIC} is written"
        elif header.base_offset != expected:
            problem = f"the batch begins at offset {header.base_offset}; {expected} should be here"
        elif header.leader_epoch != epoch and header.end_offset > log.log_start:
            problem = f"the batch is of epoch {header.leader_epoch}, the table says {epoch}"
        if problem and expected >= log.trimmed - header.last_offset_delta:
            yield Damage(segment.path, position, size, expected, expected + header.last_offset_delta + 1, problem)
        expected += header.last_offset_delta + 1
        position += size
