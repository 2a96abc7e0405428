"""One partition's batches: their positions in segments, and how they are read.

An appended batch can be read immediately: from memory until its bytes are in the segment, and for as long as the tail
cache keeps it.  Bytes from disk are checked before they leave the broker: the CRC of every batch, and the fields that
the CRC does not cover, which are the offset (it must continue the previous batch), the magic and the leader epoch (rule
S2 of `docs/formats/journal.md`).
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

from tidemill.batches.batch import (
    CRC_START,
    HEADER_BYTES,
    LENGTH_BYTES,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    crc_matches,
    read_header,
)
from tidemill.batches.checksum import crc32c
from tidemill.model.topic import TopicId
from tidemill.raft.entry import Entry
from tidemill.storage import paths
from tidemill.storage.disk import Buffer, Disk
from tidemill.storage.partition.leader_epochs import LeaderEpochs
from tidemill.storage.partition.offset_index import RELATIVE_OFFSET_MAX
from tidemill.storage.partition.partition_state import PartitionState
from tidemill.storage.partition.producer_states import ProducerStates
from tidemill.storage.partition.segment import UNKNOWN_TIMESTAMP as UNKNOWN
from tidemill.storage.partition.segment import Segment, SegmentDamaged, load_index, walk
from tidemill.storage.partition.tail_cache import Tail, TailCache

SEGMENT_POSITION_MAX: Final = (1 << 32) - 1  # positions are 4 B in rows and indexes
READ_PLACES_MAX: Final = 32  # how many readers' next positions are remembered; other readers use the index
UNREAD_BYTES_MAX: Final = 256 << 20  # after this many appended bytes without a segment read, no read is expected soon
_LAST_OFFSET_DELTA: Final = Struct(">i")
_LAST_OFFSET_DELTA_AT: Final = 23
_unpack_checked: Final = Struct(">qiibI2xi").unpack_from  # base offset, length, epoch, magic, CRC, last offset delta


class OffsetGone(LookupError):
    """The offset was trimmed, or the partition closed, during the read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings that determine when a partition begins a new segment, and how dense its indexes are."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    index_interval_bytes: int = 4096


DEFAULT_LOG_CONFIG: Final = LogConfig()


class PartitionLog:
    """The log of one partition.  `log_start` changes at commit, `end_offset` at append and truncation."""

    __slots__ = (
        "_cache",
        "_disk",
        "_places",
        "_read_at_bytes",
        "appended_bytes",
        "config",
        "directory",
        "end_offset",
        "epochs",
        "is_closed",
        "log_start",
        "partition",
        "producers",
        "segments",
        "tail",
        "topic_id",
        "trimmed",
    )

    def __init__(self, disk: Disk, cache: TailCache, topic_id: TopicId, partition: int) -> None:
        self._disk = disk
        self._cache = cache
        self.topic_id = topic_id
        self.partition = partition
        self.directory = paths.partition_directory(topic_id, partition)
        self.config = DEFAULT_LOG_CONFIG
        self.log_start = 0
        self.trimmed = 0  # records below this offset are not kept, checked or sent
        self.end_offset = 0
        self.is_closed = False  # the shard has been closed on this broker
        # Reader threads iterate over the list: segments are appended in place, but removed by replacing the list.
        self.segments: list[Segment] = []
        self.epochs = LeaderEpochs()
        self.producers = ProducerStates()  # maintained by the shard's machines, and read by the append path
        self.tail: Tail = {}
        self.appended_bytes = 0  # since this process began; it never decreases
        self._read_at_bytes = 0  # `appended_bytes` at the last read from a segment
        self._places: deque[tuple[int, Segment, int]] = deque(maxlen=READ_PLACES_MAX)

    @property
    def is_read(self) -> bool:
        """Whether readers use the segments, not only the tail cache, so that writes should stay in the page cache."""
        return self.appended_bytes - self._read_at_bytes <= UNREAD_BYTES_MAX

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    def append(self, entry: Entry) -> BatchHeader:
        """Assign a position to the BATCH `entry`.  Return the header of its batch."""
        payload = entry.payload
        assert payload is not None, f"{entry} has no bytes"
        header = entry.header or read_header(payload)
        base_offset = entry.base_offset
        assert base_offset == self.end_offset, f"{entry} does not continue {self.end_offset} in {self.directory}"
        segment, entry.position = self.allocate(len(payload), header.max_timestamp, base_offset, entry.term)
        entry.segment_base = segment.base_offset
        self.end_offset = base_offset + entry.record_count
        self.appended_bytes += len(payload)
        self._cache.add(self.tail, entry)
        return header

    def allocate(self, size: int, max_timestamp: int, base_offset: int, epoch: int) -> tuple[Segment, int]:
        """Assign a segment and a position to the next batch.  `size` is in bytes, `max_timestamp` in ms."""
        segment = self.segments[-1] if self.segments else None
        if segment is None or self._is_full(segment, size, max_timestamp, base_offset):
            segment = self._next_segment(base_offset)
        return segment, segment.allocate(size, max_timestamp, base_offset, self.config.index_interval_bytes, epoch)

    def state(self) -> PartitionState:
        """Return the state of the partition's files."""
        return PartitionState(
            partition=self.partition,
            log_start=self.log_start,
            trimmed=self.trimmed,
            end_offset=self.end_offset,
            segments=[segment.state() for segment in self.segments if segment.size],
            epochs=self.epochs.starts,
        )

    def restore(self, state: PartitionState) -> None:
        """
        Adopt the state of an install row or a checkpoint, which the files durably hold.  Segments that remain keep
        their `Segment` objects, because a checkpoint may refer to them as dirty.
        """
        self.log_start, self.trimmed, self.end_offset = state.log_start, state.trimmed, state.end_offset
        known = {segment.base_offset: segment for segment in self.segments}
        segments = []
        for it in state.segments:
            segment = known.get(it.base_offset)
            if segment is None:
                segment = Segment(
                    self.directory,
                    it.base_offset,
                    size=it.size,
                    max_timestamp=it.max_timestamp,
                    created_at=it.created_at,
                )
            else:
                segment.restore(it)
            segments.append(segment)
            segment.is_closed = len(segments) < len(state.segments)
        self.segments = segments
        self.epochs.starts = list(state.epochs)
        self.tail.clear()
        self._places = deque(maxlen=READ_PLACES_MAX)

    def _is_full(self, segment: Segment, size: int, max_timestamp: int, base_offset: int) -> bool:
        """Return whether a new segment must begin: by size, age or index range, as in Kafka's `LogSegment`."""
        config = self.config
        grown = segment.size + size
        if not segment.size:
            return False
        if grown > config.segment_bytes or grown > SEGMENT_POSITION_MAX:
            return True
        if base_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
            return True
        return max_timestamp - segment.created_at > config.segment_ms >= 0 <= segment.created_at

    def roll(self) -> None:
        """Begin a new segment, so that the current one can expire."""
        if self.segments and self.segments[-1].size:
            self._next_segment(self.end_offset)

    def _next_segment(self, base_offset: int) -> Segment:
        if self.segments:
            self.segments[-1].is_closed = True
        segment = Segment(self.directory, base_offset)
        self.segments.append(segment)
        return segment

    def truncate(self, entry: Entry) -> list[Segment]:
        """Remove the BATCH `entry` and all batches after it.  Return the segments that no longer contain any batch."""
        self.end_offset = entry.base_offset
        kept = bisect_right(self.segments, entry.segment_base, key=lambda segment: segment.base_offset)
        removed = self.segments[kept:]
        self.segments = self.segments[:kept]
        if self.segments:
            last = self.segments[-1]
            if last.base_offset == entry.segment_base:
                last.cut(entry.position, self.config.index_interval_bytes)
            last.is_closed = False
        for base_offset in [base for base in self.tail if base >= self.end_offset]:
            del self.tail[base_offset]
        # The deque is replaced, not cleared, so that a running read stores its outdated position only in the old deque.
        self._places = deque(maxlen=READ_PLACES_MAX)
        return removed

    @property
    def first_base(self) -> int:
        """The base offset of the first segment, or of the next one if there is none."""
        return self.segments[0].base_offset if self.segments else self.end_offset

    def trim(self, offset: int, first_base: int | None = None) -> list[Segment]:
        """
        Trim the log below `offset`.  Return the segments that contained only trimmed records.  In recovery,
        `first_base` is the base offset of the first segment that the original trim kept.  It is needed because the
        trim's row can come earlier in the journal than rows of batches that the log already held when it was trimmed.
        """
        self.trimmed = max(self.trimmed, offset)
        self.log_start = max(self.log_start, offset)
        segments = self.segments
        if first_base is not None:
            count = bisect_left(segments, first_base, key=lambda segment: segment.base_offset)
        else:
            count = self._trimmed_count(offset)
        if count:
            self.segments = segments[count:]
            self._places = deque(maxlen=READ_PLACES_MAX)
        self.epochs.advance(self.log_start)
        return segments[:count]

    def frees(self, offset: int, former: int = 0) -> bool:
        """Return whether trimming to `offset` would remove a segment, and one that trimming to `former` would not."""
        return self._trimmed_count(offset) > self._trimmed_count(former)

    def _trimmed_count(self, offset: int) -> int:
        segments = self.segments
        for at, segment in enumerate(segments):
            end = segments[at + 1].base_offset if at + 1 < len(segments) else self.end_offset
            if end > offset or segment.base_offset == end:
                return at  # an empty segment is kept: the next batch creates its file, which a removal would delete
        return len(segments)

    def read(self, offset: int, bytes_max: int, end_offset: int, *, may_wait: bool) -> tuple[list[Buffer], int] | None:
        """
        Read complete batches, from the batch that contains `offset` up to `end_offset`: about `bytes_max` bytes, but at
        least one batch.  Return the batches and their size in bytes, or None if the read would wait for the disk and
        `may_wait` is false.  Raises OffsetGone if the records are trimmed or the partition is closed in the meantime,
        and SegmentDamaged instead of returning wrong bytes.
        """
        if offset >= end_offset:
            return [], 0
        found = self._read_tail(offset, bytes_max, end_offset)
        if found is not None:
            return found
        try:
            return self._read_segments(offset, bytes_max, end_offset, may_wait)
        except SegmentDamaged as problem:
            raise self._cause(problem, offset) from None

    def _cause(self, problem: SegmentDamaged, offset: int) -> OffsetGone | SegmentDamaged:
        """Return what a read of `offset` has met: a removal of the file, which is no damage, or else `problem`."""
        if self.is_closed or offset < self.trimmed:
            return OffsetGone(f"offset {offset} of {self.directory} was trimmed or closed during the read")
        return problem

    def _read_tail(self, offset: int, bytes_max: int, end_offset: int) -> tuple[list[Buffer], int] | None:
        tail = self.tail
        batch = tail.get(offset)
        if batch is None:
            batch = self._batch_in_tail_around(offset)
            if batch is None:
                return None
            offset = read_header(batch).base_offset
        batches: list[Buffer] = []
        size = 0
        while batch is not None:
            grown = size + len(batch)
            end = offset + _LAST_OFFSET_DELTA.unpack_from(batch, _LAST_OFFSET_DELTA_AT)[0] + 1
            if end > end_offset or (grown > bytes_max and batches):
                break
            batches.append(batch)
            size = grown
            offset = end
            batch = tail.get(offset)
        return batches, size

    def _batch_in_tail_around(self, offset: int) -> Buffer | None:
        """Return the batch in memory that contains `offset`, but not as its first record; None if there is none."""
        bases = list(self.tail)  # ascending: batches are added and truncated at the end, and evicted at the start
        at = bisect_left(bases, offset) - 1
        batch = self.tail.get(bases[at]) if at >= 0 else None
        return batch if batch is not None and read_header(batch).end_offset > offset else None

    def _read_segments(
        self, offset: int, bytes_max: int, end_offset: int, may_wait: bool
    ) -> tuple[list[Buffer], int] | None:
        places = self._places
        allocate = self.place_of(offset, may_wait)
        if allocate is None:
            return None
        segment, position, base_offset = allocate
        written = segment.written
        room = written - position
        if room <= 0:
            if written < segment.size:
                return self._read_tail(offset, bytes_max, end_offset) or ([], 0)
            raise SegmentDamaged(segment.path, written, offset, "no batch in the segment holds this offset")
        data = self._read(segment, position, min(max(bytes_max, HEADER_BYTES), room), may_wait)
        if data is None:
            return None
        if len(data) >= HEADER_BYTES:
            first_size = read_header(data).size_bytes
            if HEADER_BYTES <= len(data) < first_size <= room:
                more = self._read(segment, position, first_size, may_wait)
                if more is None:
                    return None
                data = more
        size, next_offset = self._checked_size(segment, position, data, base_offset, end_offset)
        if not size:
            return [], 0
        batches: list[Buffer] = [memoryview(data)[:size]]
        if position + size < written:
            places.append((next_offset, segment, position + size))
        elif next_offset < end_offset:
            newer = self._read_tail(next_offset, bytes_max - size, end_offset)
            if newer is not None and size + newer[1] <= bytes_max:  # the tail cache may return a single larger batch
                batches += newer[0]
                size += newer[1]
        return batches, size

    def read_bytes(self, segment: Segment, position: int, size: int, *, may_wait: bool) -> bytes | bytearray | None:
        """
        Return bytes of a segment's file, unchecked; None if the read would wait for the disk and `may_wait` is false.
        Raises OffsetGone if the segment is removed or the partition is closed in the meantime, and SegmentDamaged if
        the file is missing.
        """
        try:
            return self._read(segment, position, size, may_wait)
        except SegmentDamaged:
            if self.is_closed or segment not in self.segments:
                raise OffsetGone(f"{segment.path} was removed during the read") from None
            raise

    def _read(self, segment: Segment, position: int, size: int, may_wait: bool) -> bytes | bytearray | None:
        self._read_at_bytes = self.appended_bytes
        file = segment.opened(self._disk)
        return file.read(position, size) if may_wait else file.read_cached(position, size)

    def _checked_size(
        self, segment: Segment, start: int, data: bytes | bytearray, offset: int, end_offset: int
    ) -> tuple[int, int]:
        """
        Check the batches in `data` from `offset` on.  Return the size of the complete batches below `end_offset`, and
        the offset after them.  Raises SegmentDamaged if the first batch is damaged.
        """
        at = 0
        expected = offset
        if len(data) < HEADER_BYTES:
            raise SegmentDamaged(segment.path, start, offset, f"the file ends at byte {start + len(data)}")
        # The epoch table begins at the log start, which may lie in the middle of the first batch.
        epoch, epoch_end = self.epochs.span_from(offset)
        with memoryview(data) as view:
            # Batches from `end_offset` on are not checked: their bytes may be changing right now.
            while at + HEADER_BYTES <= len(data) and expected < end_offset:
                base_offset, batch_length, leader_epoch, magic, crc, last_offset_delta = _unpack_checked(data, at)
                end = at + batch_length + LENGTH_BYTES
                if end > len(data) and at:
                    break
                next_offset = base_offset + last_offset_delta + 1
                if base_offset >= epoch_end:
                    epoch, epoch_end = self.epochs.span_at(base_offset)
                if not (
                    batch_length >= HEADER_BYTES - LENGTH_BYTES
                    and end <= len(data)
                    and base_offset == expected < next_offset
                    and magic == MAGIC
                    and leader_epoch == epoch
                    and crc32c(view[at + CRC_START : end]) == crc
                ):
                    if at:
                        break  # return the intact batches before this one; the next read begins at this one and raises
                    raise SegmentDamaged(segment.path, start, offset, _problem_of(data, offset, epoch))
                if next_offset > end_offset:
                    break
                expected = next_offset
                at = end
        return at, expected

    def segment_of(self, offset: int) -> Segment | None:
        segments = self.segments
        at = bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1
        return segments[at] if at >= 0 else None

    def place_of(self, offset: int, may_wait: bool) -> tuple[Segment, int, int] | None:
        """
        Return the segment, position and base offset of the batch that contains `offset`; None if the lookup would wait
        for the disk and `may_wait` is false.  If no file contains the batch yet, the returned base offset is `offset`
        itself.  Raises OffsetGone and SegmentDamaged, as `read` does.
        """
        try:
            return self._place_of(offset, may_wait)
        except SegmentDamaged as problem:
            raise self._cause(problem, offset) from None

    def _place_of(self, offset: int, may_wait: bool) -> tuple[Segment, int, int] | None:
        for remembered in tuple(self._places):  # copied in one step: other threads append to it
            if remembered[0] == offset:
                return remembered[1], remembered[2], offset
        segment = self.segment_of(offset)
        if segment is None:
            raise OffsetGone(f"offset {offset} lies before every segment of {self.directory}")
        written = segment.written
        if not written:
            return segment, 0, offset
        if not may_wait:
            return None
        index = segment.index or load_index(self._disk, segment, self.config.index_interval_bytes)
        file = segment.opened(self._disk)
        point, start = index.point_before(offset - segment.base_offset)
        for position, base_offset, header in walk(file, segment.path, start, written, segment.base_offset + point):
            if base_offset > offset:
                raise SegmentDamaged(segment.path, position, offset, f"the next batch begins at offset {base_offset}")
            if base_offset + header.last_offset_delta >= offset:
                return segment, position, base_offset
        return segment, written, offset

    def first_at_or_after(self, timestamp: int, end_offset: int, start_offset: int = 0) -> BatchHeader | None:
        """
        Return the header of the first batch between `start_offset` and `end_offset` that has a record at or after
        `timestamp` (ms).  May wait for the disk.  Raises OffsetGone if the partition is closed in the meantime, and
        SegmentDamaged.
        """
        start_offset = max(start_offset, self.log_start)
        segments = self.segments[:]
        for at, segment in enumerate(segments):
            if at + 1 < len(segments) and segments[at + 1].base_offset <= start_offset:
                continue
            if segment.max_timestamp != UNKNOWN and segment.max_timestamp < timestamp:
                continue
            for header in self._headers(segment, timestamp):
                if header.base_offset >= end_offset:
                    return None
                if header.max_timestamp >= timestamp and header.end_offset > start_offset:
                    return header
        return None

    def with_largest_timestamp(self, end_offset: int, start_offset: int = 0) -> BatchHeader | None:
        """
        Return the header of the first batch that has the largest timestamp between `start_offset` and `end_offset`.
        May wait for the disk.  Raises as `first_at_or_after` does.
        """
        start_offset = max(start_offset, self.log_start)
        largest = None
        for segment in self.segments[:]:
            for header in self._headers(segment, UNKNOWN):
                if header.base_offset >= end_offset:
                    return largest
                is_kept = header.end_offset > start_offset
                if is_kept and (largest is None or header.max_timestamp > largest.max_timestamp):
                    largest = header
        return largest

    def _headers(self, segment: Segment, timestamp: int) -> Iterator[BatchHeader]:
        """
        Yield the headers of the batches as `_walked` does, but end early, without an error, if the segment is removed
        in the meantime.  Raise OffsetGone if the partition is closed: its records may be on other brokers.
        """
        try:
            yield from self._walked(segment, timestamp)
        except SegmentDamaged:
            if self.is_closed:
                raise OffsetGone(f"{self.directory} was closed during the read") from None
            if segment in self.segments:
                raise

    def _walked(self, segment: Segment, timestamp: int) -> Iterator[BatchHeader]:
        """
        Yield the headers of a segment's batches, beginning at the index point from which a search for `timestamp`
        starts: first from the file, up to its written end, then from memory, and from the file again for batches that
        have since left memory.
        """
        position = 0
        offset = segment.base_offset
        if segment.written:
            index = segment.index or load_index(self._disk, segment, self.config.index_interval_bytes)
            point, position = index.point_before_timestamp(timestamp, segment.written)
            offset += point
        while position < segment.size:
            if position < (written := segment.written):
                for at, expected, header in walk(segment.opened(self._disk), segment.path, position, written, offset):
                    if header.base_offset != expected:
                        problem = f"the batch begins at offset {header.base_offset}"
                        raise SegmentDamaged(segment.path, at, expected, problem)
                    yield header
                    offset = header.end_offset
                position = written
                continue
            batch = self.tail.get(offset)
            if batch is None:
                if segment.written <= position:
                    return  # the batch has since been truncated
                continue
            header = read_header(batch)
            yield header
            offset = header.end_offset
            position += len(batch)

    def close(self) -> None:
        for segment in self.segments:
            segment.close()


def _problem_of(data: bytes | bytearray, offset: int, epoch: int) -> str:
    """
    Describe what is wrong with the batch at the start of `data`, which should begin at `offset` and have the leader
    epoch `epoch`.
    """
    header = read_header(data)
    if not HEADER_BYTES <= header.size_bytes <= len(data):
        return f"a batch of {header.size_bytes} B does not fit"
    if not crc_matches(data):
        return "the CRC of the batch does not match"
    if header.base_offset != offset:
        return f"the batch begins at offset {header.base_offset}"
    if data[MAGIC_POSITION] != MAGIC:
        return f"the magic of the batch is {data[MAGIC_POSITION]}"
    return f"the batch is of epoch {header.leader_epoch}, the table says {epoch}"
