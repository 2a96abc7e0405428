# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Scans packed rows of the index by due time: sorts them, splits them at an edge, and takes those that count.

Like `batches.scan`, this file is compiled with Cython, and runs as plain Python if there is no compiler.  Import
`due_scan` from `native`, which selects one of the two implementations.  The tests compare both.

Rows are in order as byte strings (`due_row`), which is the order of three unsigned numbers: due, arrival and offset.

Safety: the compiler's bounds checks are off.  Every function uses whole rows only, so no code reads beyond the bytes
that are given, and a bit of `over` is read only for arrivals between `first` and `end`, whose bits exist.
"""

from __future__ import annotations

from heapq import heappop
from typing import Any

import cython

ROW_BYTES = cython.declare(cython.Py_ssize_t, 48)
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
        return b"".join(sorted([rows[at : at + 48] for at in range(0, len(rows), 48)]))
    if not rows:
        return rows
    out = bytearray(len(rows))
    sort: RowSort = RowSort(rows, out)
    with cython.nogil:
        sort.by_word(8)
        sort.by_word(0)
        sort.write()
    return bytes(out)


@cython.final
@cython.cclass
class RowSort:
    """
    A radix sort of row positions without the GIL, in passes over 11 bits.

    The words of rows are close together, so there are few passes: none for rows that are in order already.
    """

    rows: bytes
    out: cython.uchar[::1]
    count: cython.Py_ssize_t
    data: cython.pointer[cython.const[cython.uchar]]
    memory: cython.ulonglong[:, ::1]
    words: cython.pointer[cython.ulonglong]  # of the rows in `order`, which a pass sorts by
    order: cython.pointer[cython.ulonglong]  # the positions of rows
    next_words: cython.pointer[cython.ulonglong]  # what the pass fills
    next_order: cython.pointer[cython.ulonglong]
    places: cython.Py_ssize_t[2048]

    def __init__(self, rows: bytes, out: bytearray) -> None:
        self.rows = rows
        self.out = out
        self.data = rows
        self.count = len(rows) // ROW_BYTES
        self.memory = memoryview(bytearray(32 * self.count)).cast("Q", (4, self.count))
        self.words = cython.address(self.memory[0, 0])
        self.order = cython.address(self.memory[1, 0])
        self.next_words = cython.address(self.memory[2, 0])
        self.next_order = cython.address(self.memory[3, 0])
        row: cython.Py_ssize_t
        for row in range(self.count):
            self.order[row] = row * ROW_BYTES

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def by_word(self, at: cython.Py_ssize_t) -> cython.void:
        """Sort by the word at a position in rows.  Rows with equal words stay in order."""
        row: cython.Py_ssize_t
        word: cython.ulonglong
        former: cython.ulonglong = 0
        least: cython.ulonglong = WORD_MAX
        greatest: cython.ulonglong = 0
        is_sorted: cython.bint = True
        for row in range(self.count):
            word = _word(self.data, self.order[row] + at)
            self.words[row] = word
            is_sorted = is_sorted and former <= word
            least = min(least, word)
            greatest = max(greatest, word)
            former = word
        shift: cython.int = 0
        while not is_sorted and shift < 64 and (greatest - least) >> shift:
            self.by_digit(least, shift)
            shift += 11

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def by_digit(self, least: cython.ulonglong, shift: cython.int) -> cython.void:
        row: cython.Py_ssize_t
        digit: cython.ulonglong
        count: cython.Py_ssize_t
        place: cython.Py_ssize_t = 0
        for digit in range(2048):
            self.places[digit] = 0
        for row in range(self.count):
            self.places[(self.words[row] - least) >> shift & 2047] += 1
        for digit in range(2048):
            count = self.places[digit]
            self.places[digit] = place
            place += count
        for row in range(self.count):
            digit = (self.words[row] - least) >> shift & 2047
            place = self.places[digit]
            self.next_words[place] = self.words[row]
            self.next_order[place] = self.order[row]
            self.places[digit] = place + 1
        self.words, self.next_words = self.next_words, self.words
        self.order, self.next_order = self.next_order, self.order

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def write(self) -> cython.void:
        """Write the rows, after putting the few copies with the same key in order."""
        row: cython.Py_ssize_t
        at: cython.Py_ssize_t
        for row in range(1, self.count):
            at = row
            while at > 0 and _is_before(self.data, self.order[at], self.data, self.order[at - 1]):
                self.order[at], self.order[at - 1] = self.order[at - 1], self.order[at]
                at -= 1
        for row in range(self.count):
            _copy_row(self.out, row * ROW_BYTES, self.data, self.order[row])


# Splitting


def split_rows(rows: bytes, low: bytes, high: bytes) -> bytes:
    """Return the rows with keys from `low` until before `high`, in their order."""
    data: cython.pointer[cython.const[cython.uchar]] = rows
    lows: bytes = low.ljust(KEY_BYTES, b"\0")
    highs: bytes = high.ljust(KEY_BYTES, b"\0")
    lows_data: cython.pointer[cython.const[cython.uchar]] = lows
    highs_data: cython.pointer[cython.const[cython.uchar]] = highs
    end: cython.Py_ssize_t = len(rows)
    out = bytearray(end)
    into: cython.uchar[::1] = out
    size: cython.Py_ssize_t
    if end > GIL_BYTES_MAX:
        with cython.nogil:
            size = _split(data, end, lows_data, highs_data, into)
    else:
        size = _split(data, end, lows_data, highs_data, into)
    return bytes(memoryview(out)[:size])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _split(
    data: cython.pointer[cython.const[cython.uchar]],
    end: cython.Py_ssize_t,
    low: cython.pointer[cython.const[cython.uchar]],
    high: cython.pointer[cython.const[cython.uchar]],
    into: cython.uchar[::1],
) -> cython.Py_ssize_t:
    """Do the work of `split_rows`, and return the size of the result."""
    low_due: cython.ulonglong = _word(low, 0)
    low_arrival: cython.ulonglong = _word(low, 8)
    high_due: cython.ulonglong = _word(high, 0)
    high_arrival: cython.ulonglong = _word(high, 8)
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
            continue
        if due > low_due or (due == low_due and arrival >= low_arrival):
            _copy_row(into, size, data, row)
            size += ROW_BYTES
    return size


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


@cython.final
@cython.cclass
class Counting:
    """Which rows count; a `RowFilter` or a `BitView` describes it."""

    over: cython.const[cython.uchar][::1]  # type: ignore[valid-type]
    base: cython.ulonglong
    first: cython.ulonglong
    end: cython.ulonglong
    rescheduled: dict[int, int]
    arrivals_start: cython.ulonglong
    kept_start: cython.ulonglong

    def __init__(self, row_filter: Any) -> None:
        self.over, self.base, self.first, self.end, self.rescheduled, self.arrivals_start, self.kept_start = row_filter

    @cython.cfunc
    @cython.inline
    def counts(self, data: cython.pointer[cython.const[cython.uchar]], row: cython.Py_ssize_t) -> cython.bint:
        arrival: cython.ulonglong = _word(data, row + 8)
        offset: cython.ulonglong = _word(data, row + 16)
        if arrival < self.first or arrival >= self.end:
            return False
        if offset < (self.kept_start if offset > OFFSET_MAX else self.arrivals_start):
            return False
        bit: cython.ulonglong = arrival - self.base
        if self.over[bit >> 3] >> (bit & 7) & 1:
            return False
        if not self.rescheduled:
            return True
        due = _word(data, row)
        return self.rescheduled.get(arrival, due) == due


def waiting_rows(rows: bytes, bits: Any) -> bytes:
    """Return the rows whose arrivals wait; `bits` are a `BitView`."""
    return counting_rows(rows, (*bits, {}, 0, 0))


def counting_rows(rows: bytes, row_filter: Any) -> bytes:
    """Return the rows that count; `row_filter` is a `RowFilter`."""
    counting: Counting = Counting(row_filter)
    data: cython.pointer[cython.const[cython.uchar]] = rows
    end: cython.Py_ssize_t = len(rows)
    out = bytearray(end)
    into: cython.uchar[::1] = out
    index: cython.Py_ssize_t
    size: cython.Py_ssize_t = 0
    for index in range(end // ROW_BYTES):
        if counting.counts(data, index * ROW_BYTES):
            _copy_row(into, size, data, index * ROW_BYTES)
            size += ROW_BYTES
    return bytes(memoryview(out)[:size])


def rescheduled_rows(rows: bytes, rescheduled: dict[int, int]) -> bytes:
    """Return the rows whose arrivals are due at another time now, with that time."""
    data: cython.pointer[cython.const[cython.uchar]] = rows
    end: cython.Py_ssize_t = len(rows)
    index: cython.Py_ssize_t
    row: cython.Py_ssize_t
    found = []
    for index in range(end // ROW_BYTES):
        row = index * ROW_BYTES
        due = rescheduled.get(_word(data, row + 8))
        if due is not None and due != _word(data, row):
            found.append(due.to_bytes(8, "big") + data[row + 8 : row + ROW_BYTES])
    return b"".join(found)


def taken_still(taken: dict[bytes, bytes], row_filter: Any) -> dict[bytes, bytes]:
    """Return the rows of `taken` that count."""
    counting: Counting = Counting(row_filter)
    data: cython.pointer[cython.const[cython.uchar]]
    row: bytes
    found = {}
    for key, row in taken.items():
        data = row
        if counting.counts(data, 0):
            found[key] = row
    return found


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
    which stays where it is, or None.  Nothing is taken from the heap after the last row of a slice.
    """
    counting: Counting = Counting(row_filter)
    end: cython.Py_ssize_t = len(rows)
    slice_data: cython.pointer[cython.const[cython.uchar]] = rows
    heap_data: cython.pointer[cython.const[cython.uchar]] = rows
    data: cython.pointer[cython.const[cython.uchar]]
    bounds: bytes = bound.ljust(ROW_BYTES, b"\0")
    bound_data: cython.pointer[cython.const[cython.uchar]] = bounds
    top: bytes
    row: bytes
    key: bytes
    at: cython.Py_ssize_t
    size: cython.longlong = 0
    count: cython.Py_ssize_t = 0
    is_of_heap: cython.bint
    for row in found:
        data = row
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
        if counting.counts(data, at):
            row = data[at : at + ROW_BYTES]
            key = data[at : at + KEY_BYTES]
            former = taken.get(key)
            if former is None:
                if count >= records_max or (count > 0 and size + _size(data, at) > bytes_max):
                    return position, row
                size += _size(data, at)
                count += 1
                found.append(row)
                taken[key] = row
            elif former < row:
                taken[key] = row  # a newer copy: it counts instead
                if count > 0 and found[count - 1] == former:
                    found[count - 1] = row
        if is_of_heap:
            heappop(heap)
        else:
            position += ROW_BYTES
