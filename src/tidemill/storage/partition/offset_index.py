"""A sparse index of one segment: offsets → positions, and timestamps → offsets.  Readers check the batches at the
positions that the index returns.

The index has one point per `index.interval.bytes`, as in Kafka.  A point is (offset relative to the segment, position,
largest timestamp before the point).  The last point also has a leader epoch.  Two segments that have a batch of the
same epoch at the same offset are identical before it (Raft's log matching), so the last point identifies the index's
segment.
"""

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from tidemill.batches.checksum import crc32c

RELATIVE_OFFSET_MAX: Final = (1 << 32) - 1
VERSION: Final = 2
UNKNOWN_EPOCH: Final = -1
_MAGIC: Final = b"TMIX"
_HEAD_BYTES: Final = 18
_Columns = tuple["array[int]", "array[int]", "array[int]", int]


class OffsetIndex:
    """
    The index of one segment.  Positions are in bytes from the start of the segment's file; timestamps are in ms and
    never decrease.
    """

    __slots__ = ("_columns", "next_position")

    def __init__(self) -> None:
        # Offsets, positions, timestamps, and the epoch of the batch at the last point.  Other threads search and save
        # the index while the event loop adds points.  Therefore, columns only grow (`offsets` last, because a search
        # begins with it), and a truncation replaces them.
        self._columns: _Columns = (array("I"), array("I"), array("q"), UNKNOWN_EPOCH)
        self.next_position = 0  # the next batch that begins at or after this position gets a point in the index

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(
        self, relative_offset: int, position: int, max_timestamp_before: int, interval_bytes: int, epoch: int
    ) -> None:
        offsets, positions, timestamps, last_epoch = self._columns
        positions.append(position)
        timestamps.append(max_timestamp_before)
        offsets.append(relative_offset)
        if epoch != last_epoch:
            self._columns = (offsets, positions, timestamps, epoch)
        self.next_position = position + interval_bytes

    @property
    def last_point(self) -> tuple[int, int, int]:
        """The last point: (relative offset, position, epoch).  Every segment with a batch has a point."""
        offsets, positions, _, epoch = self._columns
        return offsets[-1], positions[-1], epoch

    def point_before(self, relative_offset: int) -> tuple[int, int]:
        """Return (relative offset, position) of the batch at which a search for `relative_offset` can begin."""
        offsets, positions, _, _ = self._columns
        at = bisect_right(offsets, relative_offset) - 1
        return (offsets[at], positions[at]) if at >= 0 else (0, 0)

    def point_before_timestamp(self, timestamp: int, size: int) -> tuple[int, int]:
        """
        Return (relative offset, position) of the batch at which a search for the first record at or after `timestamp`
        can begin.  The batch begins below the position `size`.
        """
        offsets, positions, timestamps, _ = self._columns
        at = min(bisect_left(timestamps, timestamp), bisect_left(positions, size)) - 1
        return (offsets[at], positions[at]) if at >= 0 else (0, 0)

    def truncate(self, size: int, interval_bytes: int) -> None:
        """Drop the points at or after `size`, the segment's new end."""
        offsets, positions, timestamps, last_epoch = self._columns
        keep = bisect_left(positions, size)
        epoch = last_epoch if keep == len(positions) else UNKNOWN_EPOCH
        self._columns = (offsets[:keep], positions[:keep], timestamps[:keep], epoch)
        self.next_position = positions[keep - 1] + interval_bytes if keep else 0

    def encode(self) -> bytes | None:
        """
        Return the contents of a closed segment's index file: magic, version (2 B), CRC of the rest (4 B), epoch of the
        last point (4 B), number of points (4 B), then the three columns, big-endian.  Return None if the last point's
        epoch is unknown: a reader could not tell whether the file belongs to its segment.
        """
        offsets, positions, timestamps, epoch = self._columns
        count = len(offsets)
        if epoch < 0 or not count:
            return None
        columns = []
        for column in (offsets, positions, timestamps):
            swapped = column[:count]
            swapped.byteswap()
            columns.append(swapped.tobytes())
        body = epoch.to_bytes(4) + count.to_bytes(4) + b"".join(columns)
        return _MAGIC + VERSION.to_bytes(2) + crc32c(body).to_bytes(4) + body

    @classmethod
    def decode(cls, data: bytes, segment_size: int) -> "OffsetIndex | None":
        """Return the index in `data`; None if `data` is not intact, or has a point at or after `segment_size`."""
        if len(data) < _HEAD_BYTES or data[:4] != _MAGIC or int.from_bytes(data[4:6]) != VERSION:
            return None
        count = int.from_bytes(data[14:18])
        if not count or len(data) != _HEAD_BYTES + 16 * count or crc32c(data[10:]) != int.from_bytes(data[6:10]):
            return None
        index = cls()
        offsets, positions, timestamps, _ = index._columns
        at = _HEAD_BYTES
        for column in (offsets, positions, timestamps):
            column.frombytes(data[at : at + column.itemsize * count])
            column.byteswap()
            at += column.itemsize * count
        if positions[-1] >= segment_size:
            return None
        index._columns = (offsets, positions, timestamps, int.from_bytes(data[10:14]))
        index.next_position = segment_size
        return index
