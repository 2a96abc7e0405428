# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Scans packed rows of the index by due time: sorts them, splits them at an edge, and takes those that count.

Like `batches.scan`, this file is compiled with Cython, and runs as plain Python if there is no compiler.  Import
`due_scan` from `native`, which selects one of the two implementations.  The tests compare both.

Rows are in order as byte strings (`due_row`), which is the order of three unsigned numbers: due, arrival and offset.

Safety: the compiler's bounds checks are off.  Every function uses whole rows only, so no code reads beyond the bytes
that are given, and a bit of `over` is read only for arrivals between `first` and `end`, whose bits exist.
"""

from __future__ import annotations

from array import array
from heapq import heappop
from typing import Any

import cython

ROW_BYTES = cython.declare(cython.Py_ssize_t, 40)
KEY_BYTES = cython.declare(cython.Py_ssize_t, 16)
WORD_MAX = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
SIZE_MAX = cython.declare(cython.ulonglong, 0xFFFFFFFF)
# The largest number of bytes for which the GIL is kept: for fewer, releasing it costs more than it gains.
GIL_BYTES_MAX = cython.declare(cython.Py_ssize_t, 64 << 10)
OFFSET_MAX = cython.declare(cython.ulonglong, 0x7FFFFFFFFFFFFFFF)  # in the arrivals log


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _word(data: cython.pointer[cython.const[cython.uchar]], at: cython.Py_ssize_t) -> cython.ulonglong:
    """Return the big-endian number in 8 bytes."""
    if not cython.compiled:
        return int.from_bytes(data[at : at + 8], "big")
    found: cython.ulonglong = 0
    index: cython.int
    for index in range(8):
        found = found << 8 | data[at + index]
    return found


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _size(data: cython.pointer[cython.const[cython.uchar]], row: cython.Py_ssize_t) -> cython.longlong:
    """Return the size of the record of a row."""
    return cython.cast(cython.longlong, _word(data, row + 24) & SIZE_MAX)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_before(
    data: cython.pointer[cython.const[cython.uchar]],
    row: cython.Py_ssize_t,
    others: cython.pointer[cython.const[cython.uchar]],
    other: cython.Py_ssize_t,
) -> cython.bint:
    """Return whether a row comes before another one."""
    at: cython.int
    for at in range(0, 24, 8):
        if _word(data, row + at) != _word(others, other + at):
            return _word(data, row + at) < _word(others, other + at)
    return False


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _copy_row(
    into: cython.uchar[::1],
    place: cython.Py_ssize_t,
    data: cython.pointer[cython.const[cython.uchar]],
    row: cython.Py_ssize_t,
) -> cython.void:
    index: cython.Py_ssize_t
    if cython.compiled:
        for index in range(ROW_BYTES):
            into[place + index] = data[row + index]
    else:
        into[place : place + ROW_BYTES] = data[row : row + ROW_BYTES]


# Sorting


def sorted_rows(blocks: list[bytes]) -> bytes:
    """Return all rows in order."""
    rows: bytes = b"".join(blocks)
    if not cython.compiled:
        return b"".join(sorted([rows[at : at + 40] for at in range(0, len(rows), 40)]))
    if not rows:
        return rows
    sort: RowSort = RowSort(rows)
    with cython.nogil:
        sort.find_runs()
    if sort.run_count == 1:
        return rows
    out = bytearray(len(rows))
    into: cython.uchar[::1] = out
    with cython.nogil:
        sort.merge_runs()
        sort.write(into)
    return bytes(out)


@cython.final
@cython.cclass
class RowSort:
    """
    A merge sort of row positions without the GIL.

    It begins with rows that are in order already: those of runs are, and those of producers often.
    """

    rows: bytes
    data: cython.pointer[cython.const[cython.uchar]]
    count: cython.Py_ssize_t
    run_count: cython.Py_ssize_t
    dues: cython.ulonglong[:, ::1]  # of the rows in `order`, and space for the next pass
    order: cython.longlong[:, ::1]  # row positions in order, and space for the next pass
    now: cython.int  # which of the two is valid
    starts: cython.longlong[::1]  # where each sorted run of `order` begins, and the end

    def __init__(self, rows: bytes) -> None:
        self.rows = rows
        self.data = rows
        self.count = len(rows) // ROW_BYTES
        self.run_count = 0
        self.dues = memoryview(bytearray(16 * self.count)).cast("Q", (2, self.count))
        self.order = memoryview(bytearray(16 * self.count)).cast("q", (2, self.count))
        self.now = 0
        self.starts = memoryview(bytearray(8 * (self.count + 1))).cast("q")

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def find_runs(self) -> cython.void:
        """Fill `dues` and `order`, and find the rows that are in order already."""
        row: cython.Py_ssize_t
        at: cython.Py_ssize_t
        for row in range(self.count):
            at = row * ROW_BYTES
            self.dues[0, row] = _word(self.data, at)
            self.order[0, row] = at
            if row == 0 or _is_before(self.data, at, self.data, at - ROW_BYTES):
                self.starts[self.run_count] = row
                self.run_count += 1
        self.starts[self.run_count] = self.count

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def merge_runs(self) -> cython.void:
        """Merge pairs of neighbouring runs, until there is one."""
        run: cython.Py_ssize_t
        merged: cython.Py_ssize_t
        while self.run_count > 1:
            merged = 0
            for run in range(0, self.run_count, 2):
                if run + 1 < self.run_count:
                    self.merge_pair(self.starts[run], self.starts[run + 1], self.starts[run + 2])
                else:
                    self.merge_pair(self.starts[run], self.starts[run + 1], self.starts[run + 1])
                self.starts[merged] = self.starts[run]
                merged += 1
            self.starts[merged] = self.count
            self.run_count = merged
            self.now = 1 - self.now

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def merge_pair(self, left: cython.Py_ssize_t, middle: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.void:
        now: cython.int = self.now
        right: cython.Py_ssize_t = middle
        place: cython.Py_ssize_t
        chosen: cython.Py_ssize_t
        is_right: cython.bint
        for place in range(left, end):
            if left == middle:
                is_right = True
            elif right == end:
                is_right = False
            elif self.dues[now, left] != self.dues[now, right]:
                is_right = self.dues[now, right] < self.dues[now, left]
            else:
                is_right = _is_before(self.data, self.order[now, right], self.data, self.order[now, left])
            if is_right:
                chosen = right
                right += 1
            else:
                chosen = left
                left += 1
            self.dues[1 - now, place] = self.dues[now, chosen]
            self.order[1 - now, place] = self.order[now, chosen]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def write(self, into: cython.uchar[::1]) -> cython.void:
        row: cython.Py_ssize_t
        for row in range(self.count):
            _copy_row(into, row * ROW_BYTES, self.data, self.order[self.now, row])


# Splitting


def split_rows(rows: bytes, low: bytes, high: bytes) -> tuple[bytes, bytes | None]:
    """Return the rows with keys from `low` until before `high`, in their order, and the least key from `high` on."""
    data: cython.pointer[cython.const[cython.uchar]] = rows
    lows: bytes = low.ljust(KEY_BYTES, b"\0")
    highs: bytes = high.ljust(KEY_BYTES, b"\0")
    lows_data: cython.pointer[cython.const[cython.uchar]] = lows
    highs_data: cython.pointer[cython.const[cython.uchar]] = highs
    end: cython.Py_ssize_t = len(rows)
    out = bytearray(end)
    into: cython.uchar[::1] = out
    marks = array("q", [0, -1])
    marks_view: cython.longlong[::1] = marks
    if end > GIL_BYTES_MAX:
        with cython.nogil:
            _split(data, end, lows_data, highs_data, into, marks_view)
    else:
        _split(data, end, lows_data, highs_data, into, marks_view)
    least: cython.Py_ssize_t = marks[1]
    return bytes(memoryview(out)[: marks[0]]), None if least < 0 else rows[least : least + KEY_BYTES]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _split(
    data: cython.pointer[cython.const[cython.uchar]],
    end: cython.Py_ssize_t,
    low: cython.pointer[cython.const[cython.uchar]],
    high: cython.pointer[cython.const[cython.uchar]],
    into: cython.uchar[::1],
    marks: cython.longlong[::1],
) -> cython.void:
    """Do the work of `split_rows`; set `marks` to the size of the result, and to the row with the least key, or -1."""
    low_due: cython.ulonglong = _word(low, 0)
    low_arrival: cython.ulonglong = _word(low, 8)
    high_due: cython.ulonglong = _word(high, 0)
    high_arrival: cython.ulonglong = _word(high, 8)
    least_due: cython.ulonglong = WORD_MAX
    least_arrival: cython.ulonglong = WORD_MAX
    due: cython.ulonglong
    arrival: cython.ulonglong
    index: cython.Py_ssize_t
    row: cython.Py_ssize_t
    size: cython.Py_ssize_t = 0
    for index in range(end // ROW_BYTES):
        row = index * ROW_BYTES
        due = _word(data, row)
        arrival = _word(data, row + 8)
        if due > high_due or (due == high_due and arrival >= high_arrival):
            if due < least_due or (due == least_due and arrival < least_arrival):
                least_due = due
                least_arrival = arrival
                marks[1] = row
        elif due > low_due or (due == low_due and arrival >= low_arrival):
            _copy_row(into, size, data, row)
            size += ROW_BYTES
    marks[0] = size


def arrival_bounds(rows: bytes) -> tuple[int, int]:
    """Return the smallest and the largest arrival of at least one row."""
    data: cython.pointer[cython.const[cython.uchar]] = rows
    least: cython.ulonglong = WORD_MAX
    greatest: cython.ulonglong = 0
    arrival: cython.ulonglong
    index: cython.Py_ssize_t
    row: cython.Py_ssize_t
    end: cython.Py_ssize_t = len(rows)
    for index in range(end // ROW_BYTES):
        row = index * ROW_BYTES
        arrival = _word(data, row + 8)
        if arrival < least:
            least = arrival
        if arrival > greatest:
            greatest = arrival
    return least, greatest


# Choosing rows that count


def waiting_rows(rows: bytes, bits: Any) -> bytes:
    """Return the rows whose arrivals wait; `bits` are a `BitView`."""
    over: cython.const[cython.uchar][::1] = bits[0]  # type: ignore[valid-type]
    base: cython.ulonglong = bits[1]
    first: cython.ulonglong = bits[2]
    until: cython.ulonglong = bits[3]
    data: cython.pointer[cython.const[cython.uchar]] = rows
    end: cython.Py_ssize_t = len(rows)
    out = bytearray(end)
    into: cython.uchar[::1] = out
    arrival: cython.ulonglong
    index: cython.Py_ssize_t
    row: cython.Py_ssize_t
    size: cython.Py_ssize_t = 0
    for index in range(end // ROW_BYTES):
        row = index * ROW_BYTES
        arrival = _word(data, row + 8)
        if first <= arrival < until and not over[(arrival - base) >> 3] >> ((arrival - base) & 7) & 1:
            _copy_row(into, size, data, row)
            size += ROW_BYTES
    return bytes(memoryview(out)[:size])


def take_rows(
    rows: bytes,
    position: cython.Py_ssize_t,
    heap: list[bytes],
    taken: dict[bytes, bytes],
    bound: bytes,
    records_max: cython.Py_ssize_t,
    bytes_max: cython.longlong,
    row_filter: Any,
    found: list[bytes],
) -> tuple[int, bytes | None]:
    """
    Move rows before `bound` from a slice at a position, and from a heap, to `found`, until no more fit.

    Rows that do not count are dropped; `row_filter` is a `RowFilter`.  `taken` has the rows that were taken before, by
    key, and gets those that are taken now, and newer copies.  Return the next position, and the row that does not fit,
    which stays where it is, or None.  Nothing more is taken from the heap when the slice ends and is not empty.
    """
    over: cython.const[cython.uchar][::1] = row_filter[0]  # type: ignore[valid-type]
    base: cython.ulonglong = row_filter[1]
    first: cython.ulonglong = row_filter[2]
    until: cython.ulonglong = row_filter[3]
    rescheduled: dict[int, int] = row_filter[4]
    arrivals_start: cython.ulonglong = row_filter[5]
    kept_start: cython.ulonglong = row_filter[6]
    end: cython.Py_ssize_t = len(rows)
    slice_data: cython.pointer[cython.const[cython.uchar]] = rows
    bound_data: cython.pointer[cython.const[cython.uchar]]
    heap_data: cython.pointer[cython.const[cython.uchar]] = rows
    data: cython.pointer[cython.const[cython.uchar]]
    bounds: bytes = bound.ljust(ROW_BYTES, b"\0")
    bound_data = bounds
    top: bytes
    row_bytes: bytes
    key: bytes
    arrival: cython.ulonglong
    offset: cython.ulonglong
    at: cython.Py_ssize_t
    size: cython.longlong = 0
    count: cython.Py_ssize_t = 0
    is_of_heap: cython.bint
    counts: cython.bint
    for row_bytes in found:
        data = row_bytes
        size += _size(data, 0)
        count += 1
    while True:
        if position == end and end > 0:
            return position, None
        is_of_heap = False
        if heap:
            top = heap[0]
            heap_data = top
            is_of_heap = position == end or _is_before(heap_data, 0, slice_data, position)
        elif position == end:
            return position, None
        data = heap_data if is_of_heap else slice_data
        at = 0 if is_of_heap else position
        if not _is_before(data, at, bound_data, 0):
            return position, None
        arrival = _word(data, at + 8)
        offset = _word(data, at + 16)
        counts = first <= arrival < until and offset >= (kept_start if offset > OFFSET_MAX else arrivals_start)
        if counts:
            counts = not over[(arrival - base) >> 3] >> ((arrival - base) & 7) & 1
        if counts and rescheduled:
            counts = rescheduled.get(arrival, _word(data, at)) == _word(data, at)
        if counts:
            row_bytes = data[at : at + ROW_BYTES]
            key = data[at : at + KEY_BYTES]
            former = taken.get(key)
            if former is None:
                if count >= records_max or (count > 0 and size + _size(data, at) > bytes_max):
                    return position, row_bytes
                size += _size(data, at)
                count += 1
                found.append(row_bytes)
                taken[key] = row_bytes
            elif former < row_bytes:
                taken[key] = row_bytes  # a newer copy: it counts instead
                if count > 0 and found[count - 1] == former:
                    found[count - 1] = row_bytes
        if is_of_heap:
            heappop(heap)
        else:
            position += ROW_BYTES
