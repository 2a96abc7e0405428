"""A sparse index of one segment: offsets → positions, and timestamps → offsets.  A hint: what is found must be checked.

One point each `index.interval.bytes`, as in Kafka.  A point is (offset relative to the segment, position, largest
timestamp before the point).
"""

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from tidemill.batches.checksum import crc32c

VERSION: Final = 1
_MAGIC: Final = b"TMIX"


class OffsetIndex:
    """Positions are bytes in the segment's file; timestamps are ms, and never fall from point to point."""

    __slots__ = ("_offsets", "_positions", "_timestamps", "next_position")

    def __init__(self) -> None:
        self._offsets = array("I")
        self._positions = array("I")
        self._timestamps = array("q")
        self.next_position = 0  # a batch at or behind this position gets a point

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, relative_offset: int, position: int, max_timestamp_before: int, interval_bytes: int) -> None:
        self._offsets.append(relative_offset)
        self._positions.append(position)
        self._timestamps.append(max_timestamp_before)
        self.next_position = position + interval_bytes

    def position_before(self, relative_offset: int) -> int:
        """Where a walk that looks for `relative_offset` can begin."""
        at = bisect_right(self._offsets, relative_offset) - 1
        return self._positions[at] if at >= 0 else 0

    def position_before_timestamp(self, timestamp: int) -> int:
        """Where a walk that looks for the first record at or after `timestamp` can begin."""
        at = bisect_left(self._timestamps, timestamp) - 1
        return self._positions[at] if at >= 0 else 0

    def truncate(self, size: int, interval_bytes: int) -> None:
        """The segment ends at `size` now."""
        keep = bisect_left(self._positions, size)
        del self._offsets[keep:], self._positions[keep:], self._timestamps[keep:]
        self.next_position = self._positions[-1] + interval_bytes if keep else 0

    def encode(self) -> bytes:
        """
        The file of a closed segment: magic, version (2), CRC of the rest (4), count (4), then the three columns,
        big-endian.
        """
        columns = []
        for column in (self._offsets, self._positions, self._timestamps):
            swapped = column[:]
            swapped.byteswap()
            columns.append(swapped.tobytes())
        body = len(self._offsets).to_bytes(4) + b"".join(columns)
        return _MAGIC + VERSION.to_bytes(2) + crc32c(body).to_bytes(4) + body

    @classmethod
    def decode(cls, data: bytes, segment_size: int) -> "OffsetIndex | None":
        """The index that `data` holds; None when it is not a whole one of a segment of this size."""
        if len(data) < 14 or data[:4] != _MAGIC or int.from_bytes(data[4:6]) != VERSION:
            return None
        count = int.from_bytes(data[10:14])
        if len(data) != 14 + 16 * count or crc32c(data[10:]) != int.from_bytes(data[6:10]):
            return None
        index = cls()
        at = 14
        for column, width in ((index._offsets, 4), (index._positions, 4), (index._timestamps, 8)):
            column.frombytes(data[at : at + width * count])
            column.byteswap()
            at += width * count
        if count and index._positions[-1] >= segment_size:
            return None
        index.next_position = segment_size
        return index
