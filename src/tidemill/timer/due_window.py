"""The rows of the index by due time that a leader releases next: all rows with keys below an *edge*, in memory.

Rows that were read from runs are in sorted slices; a row that is added below the edge goes to a heap.  The least row of
both comes first:

    slice, slice, … ─┐
                     ├─▶ least row ─▶ does not count (`RowFilter`): dropped
    heap ────────────┘          └───▶ taken, until it is put back

An edge is a key, so a pair (due, arrival): it divides even rows with one due time.  `due_row` describes rows and keys.
"""

from bisect import bisect_left
from collections import deque
from heapq import heappush
from struct import Struct
from typing import Final, NamedTuple

from tidemill.timer.due_row import KEY_BYTES, ROW_BYTES
from tidemill.timer.native import due_scan

NO_EDGE: Final = b""  # less than every key
LAST_EDGE: Final = b"\xff" * KEY_BYTES  # greater than every key
TAKEN_MIN: Final = 1 << 13  # so many rows are taken before those of arrivals that are over are dropped
_DUE: Final = Struct(">q")
_DUE_MS_MAX: Final = (1 << 63) - 2


class RowFilter(NamedTuple):
    """What says which rows count: those of arrivals that wait, are due when the row says, and are in their log."""

    over: bytes | bytearray  # bits of arrivals that do not wait, as in `BitView`
    base: int
    first: int
    end: int
    rescheduled: dict[int, int]  # arrivals, and when they are due now
    arrivals_start: int  # the first offset of the arrivals log
    kept_start: int  # the first offset of the log of kept records, with `KEPT`


class Window:
    def __init__(self) -> None:
        """Nothing is in the window, because every key is beyond the edge."""
        self.edge = NO_EDGE
        self._rows = b""  # the first slice
        self._at = 0  # the position in it
        self._slices: deque[bytes] = deque()  # those that follow
        self._heap: list[bytes] = []
        self._taken: dict[bytes, bytes] = {}  # by key: the newest copy that is known
        self._taken_max = TAKEN_MIN

    def __len__(self) -> int:
        """Return how many rows are in the window; some may be over."""
        return (len(self._rows) - self._at + sum(map(len, self._slices))) // ROW_BYTES + len(self._heap)

    def push(self, rows: bytes) -> None:
        """Add rows below the edge."""
        for at in range(0, len(rows), ROW_BYTES):
            heappush(self._heap, rows[at : at + ROW_BYTES])

    def extend(self, rows: bytes, edge: bytes) -> None:
        """Move the edge up to `edge`; `rows` are those between the two edges, in order."""
        assert edge > self.edge, "the edge moves up"
        self.edge = edge
        if rows:
            self._slices.append(rows)

    def trim(self, count: int) -> None:
        """Move the edge down, so that about `count` rows are left."""
        blocks = [self._rows[self._at :], *self._slices, *self._heap]
        rows = due_scan.sorted_rows(blocks)
        at = count * ROW_BYTES
        if at >= len(rows):
            return
        self.edge = rows[at : at + KEY_BYTES]
        while at and rows[at - ROW_BYTES : at - ROW_BYTES + KEY_BYTES] == self.edge:
            at -= ROW_BYTES  # all copies of a row are on the same side of the edge
        self._rows, self._at = rows[:at], 0
        self._slices.clear()
        self._heap.clear()

    def take(self, limit_ms: int, records_max: int, bytes_max: int, row_filter: RowFilter) -> bytes:
        """
        Return the first rows that wait and are due by `limit_ms`, in order, each of them once until it is put back.

        The records of the rows have at most `bytes_max` bytes together, or there is one row only.
        """
        if len(self._taken) >= self._taken_max:
            self._forget_over(row_filter)
        found: list[bytes] = []
        bound = _DUE.pack(max(min(limit_ms, _DUE_MS_MAX), -1) + 1)
        self._advance(bound, records_max, bytes_max, row_filter, found)
        return b"".join(found)

    def first_due(self, row_filter: RowFilter) -> int | None:
        """Return when the first row that waits and is not taken is due."""
        row = self._advance(LAST_EDGE, 0, 0, row_filter, [])
        if row is None:
            return None
        due: int = _DUE.unpack_from(row)[0]
        return due

    def between(self, low: bytes, high: bytes) -> bytes:
        """Return the rows with keys from `low` until before `high`, in order; some may not count."""
        blocks = _between(self._heap, low, high)
        for rows, at in ((self._rows, self._at), *((it, 0) for it in self._slices)):
            starts = range(at, len(rows), ROW_BYTES)
            begin, end = (
                bisect_left(starts, key, key=lambda start: rows[start : start + KEY_BYTES]) for key in (low, high)
            )
            blocks.append(rows[at + begin * ROW_BYTES : at + end * ROW_BYTES])
        return due_scan.sorted_rows(blocks)

    def put_back(self, rows: bytes) -> None:
        """Add rows that were taken and are not used, or newer copies of them."""
        for at in range(0, len(rows), ROW_BYTES):
            row = rows[at : at + ROW_BYTES]
            key = row[:KEY_BYTES]
            row = max(self._taken.pop(key, row), row)
            if key < self.edge:
                heappush(self._heap, row)

    def allow_again(self, rows: bytes) -> None:
        """Let rows be taken although rows with the same keys have been, because they were rescheduled since."""
        for at in range(0, len(rows), ROW_BYTES):
            self._taken.pop(rows[at : at + KEY_BYTES], None)

    def claim(self, rows: bytes) -> None:
        """Take note that rows are taken and used, although `allow_again` has let them be taken a second time."""
        for at in range(0, len(rows), ROW_BYTES):
            row = rows[at : at + ROW_BYTES]
            key = row[:KEY_BYTES]
            self._taken[key] = max(self._taken.get(key, row), row)

    def _advance(
        self, bound: bytes, records_max: int, bytes_max: int, row_filter: RowFilter, found: list[bytes]
    ) -> bytes | None:
        """
        Move rows before `bound` to `found`, until no more fit; drop those that do not count.

        Return the row that does not fit, which stays first, or None.
        """
        while True:
            if self._at == len(self._rows):
                self._rows, self._at = self._slices.popleft() if self._slices else b"", 0
            self._at, row = due_scan.take_rows(
                self._rows, self._at, self._heap, self._taken, bound, records_max, bytes_max, row_filter, found
            )
            if self._at < len(self._rows) or not self._rows:
                return row

    def _forget_over(self, row_filter: RowFilter) -> None:
        """Drop the taken rows that do not count any more."""
        self._taken = due_scan.taken_still(self._taken, row_filter)
        self._taken_max = max(2 * len(self._taken), TAKEN_MIN)


def _between(heap: list[bytes], low: bytes, high: bytes) -> list[bytes]:
    """Return the items of a heap from `low` until before `high`, in any order; look only at those before `high`."""
    size, below = len(heap), [0] if heap and heap[0] < high else []
    for place in below:  # grows: the two items that follow an item in the heap are not less than it
        for child in (2 * place + 1, 2 * place + 2):
            if child < size and heap[child] < high:
                below.append(child)
    return [heap[place] for place in below if heap[place] >= low]
