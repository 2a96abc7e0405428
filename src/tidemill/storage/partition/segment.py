"""A segment: a file that holds consecutive batches of one partition, and nothing else."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from tidemill.batches.batch import HEADER_BYTES, BatchHeader, crc_matches, read_header
from tidemill.storage import paths
from tidemill.storage.disk import Disk, File
from tidemill.storage.partition.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from tidemill.storage.partition.partition_state import SegmentState

WALK_BYTES: Final = 256 << 10  # the size of a read while walking: several small batches, or the header of a large one
UNKNOWN_TIMESTAMP: Final = -1
_NEVER: Final = 1 << 62


class SegmentDamaged(OSError):
    """The bytes of a segment differ from what was written.  The message names the file, the position and the offset."""

    def __init__(self, path: str, position: int, offset: int, problem: str) -> None:
        super().__init__(f"{path}: at byte {position} (offset {offset}): {problem}")
        self.path = path
        self.position = position
        self.offset = offset


class Segment:
    """
    One segment: its sizes, its open file and its index.  Sizes and positions are in bytes.

    An appended batch is placed at the position `size`, which then grows by the batch; its bytes are written to the file
    later, when `written` passes them.
    """

    __slots__ = (
        "_index",
        "base_offset",
        "created_at",
        "cuts",
        "file",
        "is_closed",
        "max_timestamp",
        "on_disk",
        "path",
        "size",
        "truncated_to",
        "written",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        *,
        size: int = 0,
        max_timestamp: int = UNKNOWN_TIMESTAMP,
        created_at: int = 0,
    ) -> None:
        self.path = paths.segment_file(directory, base_offset)
        self.base_offset = base_offset
        self.size = size  # the bytes of all appended batches
        self.max_timestamp = max_timestamp  # the largest timestamp of all records, including truncated ones
        self.created_at = created_at  # the largest timestamp of the first batch; `segment.ms` is measured from it
        self.written = size  # the file holds the bytes up to this position
        self.truncated_to = _NEVER  # the position at which the segment was cut during the write-back in flight
        self.on_disk = size > 0
        self.is_closed = False  # another segment follows
        self.file: File | None = None
        self.cuts = 0  # the number of times that the end was moved other than by an append
        self._index = None if size else (OffsetIndex(), 0)  # the index, and the value of `cuts` for which it is valid

    @property
    def index(self) -> OffsetIndex | None:
        """The index of the segment; None if it must be loaded."""
        made = self._index
        return made[0] if made is not None and made[1] == self.cuts else None

    def keep_index(self, index: OffsetIndex, cuts: int) -> None:
        """
        Keep an index that is valid for this value of `cuts`; after a further cut it is ignored.  Any thread may call
        this.
        """
        self._index = index, cuts

    def opened(self, disk: Disk) -> File:
        """
        Return the open file.  Any thread may call this.  Raises SegmentDamaged if the file is missing: only the
        write-back creates files.
        """
        file = self.file
        if file is None:
            try:
                file = self.file = disk.open(self.path)
            except FileNotFoundError:
                raise SegmentDamaged(self.path, 0, self.base_offset, "the file is missing") from None
        return file

    def allocate(self, size: int, max_timestamp: int, offset: int, interval_bytes: int, epoch: int) -> int:
        """Append a batch of `size` bytes and return its position."""
        position = self.size
        if not position:
            self.created_at = max_timestamp
        index = self.index
        if index is not None and position >= index.next_position:
            index.add(offset - self.base_offset, position, self.max_timestamp, interval_bytes, epoch)
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
        self.size = position + size
        return position

    def cut(self, size: int, interval_bytes: int) -> None:
        """Remove the batches from position `size` on.  Their bytes may remain in the file until they are replaced."""
        index = self.index
        self.size = size
        self.written = min(self.written, size)
        self.truncated_to = min(self.truncated_to, size)
        if index is not None:
            index.truncate(size, interval_bytes)
        self.cuts += 1  # set after `size`, so that a thread that reads the new number also sees the new end
        if index is not None:
            self._index = index, self.cuts

    def state(self) -> SegmentState:
        return SegmentState(self.base_offset, self.size, self.max_timestamp, self.created_at)

    def restore(self, state: SegmentState) -> None:
        """Adopt the state from an install, which has durably cut or extended the file."""
        self.size = self.written = state.size
        self.max_timestamp, self.created_at = state.max_timestamp, state.created_at
        self.truncated_to = _NEVER
        self.on_disk = True
        self.cuts += 1  # set after `size`, so that a thread that reads the new number also sees the new end

    def write_back_begins(self) -> None:
        self.truncated_to = _NEVER

    def write_back_done(self, end: int) -> None:
        """Record that the bytes up to `end` are in the file, except bytes that were cut during the write-back."""
        self.written = max(self.written, min(end, self.truncated_to, self.size))

    def close(self) -> None:
        """
        Drop the open file.  It is closed when the last call that uses it returns: a read may run on another thread.
        """
        self.file = None


def walk(file: File, path: str, position: int, end: int, offset: int) -> Iterator[tuple[int, int, BatchHeader]]:
    """
    Yield the position, base offset and header of every batch from `position`, at which the batch with base offset
    `offset` begins, to `end`.

    Base offsets are counted from batch to batch, because the CRC does not cover the base offset in the header.  If the
    counted offset differs from the header's and the CRC of the previous batch does not match, that batch's record count
    cannot be trusted, and the header's offset is used.  Otherwise only lengths are checked.  Raises SegmentDamaged.
    """
    chunk = b""
    start = before = position
    while position < end:
        at = position - start
        if at + HEADER_BYTES > len(chunk):
            chunk = file.read(position, min(WALK_BYTES, end - position))
            start, at = position, 0
            if len(chunk) < HEADER_BYTES:
                raise SegmentDamaged(path, position, -1, f"the file ends within a batch header; {end} B were expected")
        header = read_header(chunk, at)
        size = header.size_bytes
        if size < HEADER_BYTES or position + size > end:
            raise SegmentDamaged(path, position, offset, f"a batch of {size} B does not fit before byte {end}")
        if header.base_offset != offset and not _is_whole(file, before, position - before):
            offset = header.base_offset
        yield position, offset, header
        offset += header.last_offset_delta + 1
        before, position = position, position + size


def _is_whole(file: File, position: int, size: int) -> bool:
    """Return whether the CRC of the batch of `size` bytes at `position` matches; true if `size` is 0."""
    return not size or crc_matches(file.read(position, size))


def _read_start(file: File, position: int) -> tuple[int, int]:
    """
    Return the base offset and the epoch of the batch at `position`; -1 for both if the file ends within its header.
    """
    data = file.read(position, HEADER_BYTES)
    if len(data) < HEADER_BYTES:
        return -1, -1
    header = read_header(data)
    return header.base_offset, header.leader_epoch


def load_index(disk: Disk, segment: Segment, interval_bytes: int) -> OffsetIndex:
    """
    Load the segment's index from its index file, or build it from the batch headers if that file is damaged or belongs
    to an earlier segment with the same base offset.  May wait for the disk.
    """
    while True:
        cuts = segment.cuts
        index = _kept_index(disk, segment, segment.written) or built_index(disk, segment, interval_bytes)
        segment.keep_index(index, cuts)
        if cuts == segment.cuts:
            return index


def _kept_index(disk: Disk, segment: Segment, written: int) -> OffsetIndex | None:
    """
    Return the index in the segment's index file; None if it does not belong to this segment.  Bytes after `written` are
    not part of the segment: they have been truncated, or have not been written back yet.
    """
    try:
        file = disk.open(paths.index_file(segment.path))
    except FileNotFoundError:
        return None
    try:
        index = OffsetIndex.decode(file.read(0, file.size()), written)
    finally:
        file.close()
    if index is None:
        return None
    relative_offset, position, epoch = index.last_point
    found = _read_start(segment.opened(disk), position)
    return index if found == (segment.base_offset + relative_offset, epoch) else None


def built_index(disk: Disk, segment: Segment, interval_bytes: int) -> OffsetIndex:
    """
    Build the index from the batch headers.  May wait for the disk.  The index ends before the first damaged batch: a
    reader that looks for a later batch walks from the last point, and raises SegmentDamaged.
    """
    index = OffsetIndex()
    max_timestamp = UNKNOWN_TIMESTAMP
    batches = walk(segment.opened(disk), segment.path, 0, segment.written, segment.base_offset)
    with suppress(SegmentDamaged):
        for position, offset, header in batches:
            if position >= index.next_position and 0 <= offset - segment.base_offset <= RELATIVE_OFFSET_MAX:
                index.add(offset - segment.base_offset, position, max_timestamp, interval_bytes, header.leader_epoch)
            max_timestamp = max(max_timestamp, header.max_timestamp)
    return index


def save_index(disk: Disk, segment: Segment) -> None:
    """Write a closed segment's index file.  It needs no sync: `load_index` checks its CRC and its last point."""
    index = segment.index
    data = None if index is None else index.encode()
    if data is None:
        return
    file = disk.open(paths.index_file(segment.path), create=True)
    try:
        file.truncate(len(data))
        file.write(0, [data])
    finally:
        file.close()
