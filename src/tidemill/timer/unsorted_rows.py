"""The newest rows of one log in the index by due time, in the order of the log: those that are in no run yet.

They are kept in blocks of bytes that never change, so that a job can read them.  Each block covers a range of offsets,
and has all rows of it, because a run must not claim a range of which it has only some rows.
"""

from bisect import bisect_right
from operator import attrgetter
from typing import Final, NamedTuple

from tidemill.timer.due_row import ROW, ROW_BYTES
from tidemill.timer.native import due_scan
from tidemill.timer.waiting_bits import BitView

BLOCK_ROWS: Final = 400  # smaller additions are joined up to this size, larger ones divided
_OFFSET_FIELD: Final = 2


class _Block(NamedTuple):
    rows: bytes
    first: int
    end: int


class Gathered(NamedTuple):
    """The rows of a range of offsets that wait."""

    blocks: list[bytes]
    first: int
    end: int


class UnsortedRows:
    def __init__(self, block_rows: int = BLOCK_ROWS) -> None:
        self.size = 0  # in bytes
        self._block_bytes = block_rows * ROW_BYTES
        self._blocks: list[_Block] = []  # by offset; the ranges do not overlap

    def add(self, rows: bytes, first: int, end: int) -> None:
        """Add all rows of a range, in order of their offsets."""
        self.size += len(rows)
        begin = 0
        while len(rows) - begin > self._block_bytes:
            next_begin = begin + self._block_bytes
            part_end = ROW.unpack_from(rows, next_begin)[_OFFSET_FIELD]
            self._insert(_Block(rows[begin:next_begin], first, part_end))
            begin, first = next_begin, part_end
        self._insert(_Block(rows[begin:], first, end))

    def blocks(self) -> list[bytes]:
        return [block.rows for block in self._blocks if block.rows]

    def overlaps(self, first: int, end: int) -> bool:
        """Return whether a row may be in this range."""
        return any(block.rows and block.first < end and first < block.end for block in self._blocks)

    def gather(self, rows_max: int, bits: BitView) -> Gathered | None:
        """
        Remove the rows of the first range, and return those that wait, at most `rows_max`; None if none waits.

        Rows that do not wait are dropped.
        """
        at = 0
        while at < len(self._blocks):
            first = end = self._blocks[at].first
            found: list[bytes] = []
            stop, count = at, 0
            while stop < len(self._blocks) and self._blocks[stop].first == end:
                rows = due_scan.waiting_rows(self._blocks[stop].rows, bits)
                if found and count + len(rows) > rows_max * ROW_BYTES:
                    break
                count += len(rows)
                if rows:
                    found.append(rows)
                end = self._blocks[stop].end
                stop += 1
            self.size -= sum(len(block.rows) for block in self._blocks[at:stop])
            # The next run includes a range of which nothing waits: runs that follow each other can be merged.
            self._blocks[at:stop] = [] if found else [_Block(b"", first, end)]
            if found:
                return Gathered(found, first, end)
            at += 1
        return None

    def _insert(self, block: _Block) -> None:
        at = bisect_right(self._blocks, block.first, key=attrgetter("first"))
        if at and self._blocks[at - 1].end == block.first:
            former = self._blocks[at - 1]
            if len(former.rows) + len(block.rows) <= self._block_bytes:
                self._blocks[at - 1] = _Block(former.rows + block.rows, former.first, block.end)
                return
        self._blocks.insert(at, block)
