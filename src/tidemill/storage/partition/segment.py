"""A segment: a file of consecutive batches of one partition, and nothing but batches."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from tidemill.batches.batch import HEADER_BYTES, BatchHeader, crc_matches, read_header
from tidemill.storage import paths
from tidemill.storage.disk import Disk, File
from tidemill.storage.partition.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from tidemill.storage.partition.partition_state import SegmentState

WALK_BYTES: Final = 256 << 10  # read ahead while walking headers: a few small batches, or one header of a large one
UNKNOWN_TIMESTAMP: Final = -1
_NEVER: Final = 1 << 62


class SegmentDamaged(OSError):
    """The bytes of a segment are not what was written.  Names the file, the position, and the offset."""

    def __init__(self, path: str, position: int, offset: int, problem: str) -> None:
        super().__init__(f"{path}: at byte {position} (offset {offset}): {problem}")
        self.path = path
        self.position = position
        self.offset = offset


class Segment:
    """
    Sizes and positions are bytes.  What the loop decides is here at once; what lies in the file follows (`written`).
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
        self.size = size  # of all batches appended
        self.max_timestamp = max_timestamp  # the largest of any record in it, or of any that was cut from it
        self.created_at = created_at  # the largest timestamp of its first batch; `segment.ms` counts from it
        self.written = size  # up to here its bytes are in the file
        self.truncated_to = _NEVER  # where it was cut while a block was on its way to the file
        self.on_disk = size > 0
        self.is_closed = False  # another one follows it
        self.file: File | None = None
        self.cuts = 0  # how often its end was another one, not further on
        self._index = None if size else (OffsetIndex(), 0)  # and which of these ends it is for

    @property
    def index(self) -> OffsetIndex | None:
        """None: nobody has made it yet."""
        made = self._index
        return made[0] if made is not None and made[1] == self.cuts else None

    def keep_index(self, index: OffsetIndex, cuts: int) -> None:
        """It was made when there were so many cuts; if there are more it is for nobody.  Called by every thread."""
        self._index = index, cuts

    def opened(self, disk: Disk) -> File:
        """The file, which exists: only the thread that spreads makes files.  Called by every thread."""
        file = self.file
        if file is None:
            try:
                file = self.file = disk.open(self.path)
            except FileNotFoundError:
                raise SegmentDamaged(self.path, 0, self.base_offset, "the file is missing") from None
        return file

    def allocate(self, size: int, max_timestamp: int, offset: int, interval_bytes: int, epoch: int) -> int:
        """Append a batch of `size` bytes; its position."""
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
        """Batches from `size` on are gone.  Their bytes may stay in the file until others lie over them."""
        index = self.index
        self.size = size
        self.written = min(self.written, size)
        self.truncated_to = min(self.truncated_to, size)
        if index is not None:
            index.truncate(size, interval_bytes)
        self.cuts += 1  # last: who counts as many has met the new end
        if index is not None:
            self._index = index, self.cuts

    def state(self) -> SegmentState:
        return SegmentState(self.base_offset, self.size, self.max_timestamp, self.created_at)

    def restore(self, state: SegmentState) -> None:
        """An install has cut it, or copied more into it; durably."""
        self.size = self.written = state.size
        self.max_timestamp, self.created_at = state.max_timestamp, state.created_at
        self.truncated_to = _NEVER
        self.on_disk = True
        self.cuts += 1  # last, as in `cut`

    def write_back_begins(self) -> None:
        self.truncated_to = _NEVER

    def write_back_done(self, end: int) -> None:
        """Bytes up to `end` are in the file, but for what was cut meanwhile."""
        self.written = max(self.written, min(end, self.truncated_to, self.size))

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


def walk(file: File, path: str, position: int, end: int, offset: int) -> Iterator[tuple[int, int, BatchHeader]]:
    """
    Every batch's position, base offset and header from `position`, where the one of `offset` begins, to `end`.

    Offsets are counted, for what the header says is outside the batch's CRC; but not by a batch whose CRC does not
    match.  Checks lengths only.
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
    """The batch there, of `size` bytes, counts its records rightly; so does none."""
    return not size or crc_matches(file.read(position, size))


def _read_start(file: File, position: int) -> tuple[int, int]:
    """Base offset and epoch of the batch that should begin at `position`; -1 when the file ends before."""
    data = file.read(position, HEADER_BYTES)
    if len(data) < HEADER_BYTES:
        return -1, -1
    header = read_header(data)
    return header.base_offset, header.leader_epoch


def load_index(disk: Disk, segment: Segment, interval_bytes: int) -> OffsetIndex:
    """
    Give a segment its index: from its file if that is whole and this segment's, for another may have had the same
    base offset before; else by walking the headers.  May wait for the disk.
    """
    while True:
        cuts = segment.cuts
        index = _kept_index(disk, segment, segment.written) or built_index(disk, segment, interval_bytes)
        segment.keep_index(index, cuts)
        if cuts == segment.cuts:
            return index


def _kept_index(disk: Disk, segment: Segment, written: int) -> OffsetIndex | None:
    """From its file.  What lies behind `written` is not this segment's yet, or not any more."""
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
    By walking the headers.  May wait for the disk.  Where no batch can be found it ends: who looks for one behind that
    walks there himself, and is told.
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
    """Keep a closed segment's index beside it.  Not synced: it is a hint, with a CRC, and says whose it is."""
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
