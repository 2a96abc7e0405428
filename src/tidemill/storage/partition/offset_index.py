"""A sparse index of one segment: offsets → positions, and timestamps → offsets.  A hint: what is found must be checked.

One point each `index.interval.bytes`, as in Kafka.  A point is (offset relative to the segment, position, largest
timestamp before the point).  Of the last point the leader epoch is known as well: a segment that has a batch of this
epoch at this offset has all the same before it (Raft's log matching), so that says whose index it is.
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
    """Positions are bytes in the segment's file; timestamps are ms, and never fall from point to point."""

    __slots__ = ("_columns", "next_position")

    def __init__(self) -> None:
        # Offsets, positions, timestamps, and the epoch of the batch at the last point.  Other threads search and save
        # while the loop adds: so the columns only grow, the one that is searched last of all, and a truncation puts
        # others in their place.
        self._columns: _Columns = (array("I"), array("I"), array("q"), UNKNOWN_EPOCH)
        self.next_position = 0  # a batch at or behind this position gets a point

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
        """(relative offset, position, epoch); there is one in every segment that has a batch."""
        offsets, positions, _, epoch = self._columns
        return offsets[-1], positions[-1], epoch

    def point_before(self, relative_offset: int) -> tuple[int, int]:
        """(relative offset, position) of the batch where a walk that looks for `relative_offset` can begin."""
        offsets, positions, _, _ = self._columns
        at = bisect_right(offsets, relative_offset) - 1
        return (offsets[at], positions[at]) if at >= 0 else (0, 0)

    def point_before_timestamp(self, timestamp: int, size: int) -> tuple[int, int]:
        """Likewise, for a walk that looks for the first record at or after `timestamp`; below `size`."""
        offsets, positions, timestamps, _ = self._columns
        at = min(bisect_left(timestamps, timestamp), bisect_left(positions, size)) - 1
        return (offsets[at], positions[at]) if at >= 0 else (0, 0)

    def truncate(self, size: int, interval_bytes: int) -> None:
        """The segment ends at `size` now."""
        offsets, positions, timestamps, last_epoch = self._columns
        keep = bisect_left(positions, size)
        epoch = last_epoch if keep == len(positions) else UNKNOWN_EPOCH
        self._columns = (offsets[:keep], positions[:keep], timestamps[:keep], epoch)
        self.next_position = positions[keep - 1] + interval_bytes if keep else 0

    def encode(self) -> bytes | None:
        """
        The file of a closed segment: magic, version (2), CRC of the rest (4), epoch of the last point (4), count (4),
        then the three columns, big-endian.  None when nobody could tell whose index it is.
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
        """The index that `data` holds; None when it is not a whole one, or has points behind `segment_size`."""
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
