# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Scans the records of a block: checks, splits and searches them; converts them to columns or tuples and back.

A *block* is the decompressed part of a batch after the header: a sequence of records, each of which consists of

    length varint · attributes int8 · timestamp delta varlong · offset delta varint ·
    key length varint, key · value length varint, value · header count varint · headers (name, value)

Only this module processes bytes one by one, so it is written in Cython's pure Python mode: the same file runs compiled,
without the GIL, or as plain Python if there is no compiler.  Import `scan` from `native`, which selects one of the two
implementations.  The tests compare both.

Safety: for any input, no code reads beyond the block or writes beyond a buffer.  The compiler's bounds checks are off.
Instead, every length is compared with the remaining bytes of the record before use, and every addition is checked for
int64 overflow, because C wraps around where Python does not.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

import cython

# The problems that a record can have: indexes into `PROBLEMS`, which has the messages.
NO_PROBLEM = cython.declare(cython.int, 0)
LENGTH_PROBLEM = cython.declare(cython.int, 1)
TIMESTAMP_PROBLEM = cython.declare(cython.int, 2)
OFFSET_PROBLEM = cython.declare(cython.int, 3)
KEY_PROBLEM = cython.declare(cython.int, 4)
VALUE_PROBLEM = cython.declare(cython.int, 5)
HEADERS_PROBLEM = cython.declare(cython.int, 6)
SIZE_PROBLEM = cython.declare(cython.int, 7)
REST_PROBLEM = cython.declare(cython.int, 8)

PROBLEMS = (
    "it is valid",
    "its length is malformed, or exceeds the rest of the batch",
    "its timestamp delta is malformed, or its timestamp exceeds 64 bits",
    "its offset delta is malformed, or is not its index in the batch",
    "the length of its key is malformed, or exceeds the rest of the record",
    "the length of its value is malformed, or exceeds the rest of the record",
    "its headers are malformed, or exceed the rest of the record",
    "bytes follow its last field, within the length that it declares",
    "bytes follow the last record",
)

RECORD_BYTES_MIN = 7  # each of the seven fields in the module docstring has at least one byte

INT64_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
# One more than the smallest int64, for which C has no literal.
INT64_MIN = cython.declare(cython.longlong, -0x7FFFFFFFFFFFFFFF)
# The largest timestamp that can be converted to microseconds without an overflow.
MILLISECONDS_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF // 1000)
# No header of a record decides on a number.
AMBIGUOUS = cython.declare(cython.longlong, -0x7FFFFFFFFFFFFFFF)
# What `_only_header` returns instead of a position.
NO_HEADER = cython.declare(cython.Py_ssize_t, -1)
TWO_HEADERS = cython.declare(cython.Py_ssize_t, -2)
# Rows of the index by due time (`timer/due_row.py`).
ROW_BYTES = cython.declare(cython.Py_ssize_t, 48)
UNPLACED = cython.declare(cython.ulonglong, 0xFFFFFFFF)
# How many bytes a copy of a record may need beside its own bytes: for lengths and counts, and for each header.
RECORD_GROWTH_MAX = cython.declare(cython.Py_ssize_t, 32)
HEADER_GROWTH_MAX = cython.declare(cython.Py_ssize_t, 32)
# How many bytes of numbers `found_headers` has before it adds them to its result: whole headers, of four each.
FOUND_BYTES = cython.declare(cython.Py_ssize_t, 32 << 8)
# The largest block for which the GIL is kept: for fewer bytes, releasing it costs more than it gains.
GIL_BYTES_MAX = cython.declare(cython.Py_ssize_t, 64 << 10)


class MalformedRecords(ValueError):
    """The block does not contain the records that the header of the batch declares."""


class TooManyHeaders(MalformedRecords):
    """A record has more headers than may be decoded together."""


# Entry points


def check_records(
    block: object,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    record_count: cython.int,
    base_timestamp: cython.longlong,
) -> tuple[int, int, int, int]:
    """
    Check that `record_count` records fill block[position:end] and have the offset deltas 0, 1, 2 and so on.

    Return (problem, record index, smallest timestamp, largest timestamp), with timestamps in milliseconds.  The problem
    is an index into `PROBLEMS`; 0 means that the records are valid.
    """
    walk: Walk = Walk(block, position, end, base_timestamp)
    if end - position > GIL_BYTES_MAX:
        with cython.nogil:
            walk.check_all(record_count)
    else:
        walk.check_all(record_count)
    return walk.problem, walk.record_index, walk.timestamp_min, walk.timestamp_max


def first_at_or_after(
    block: object,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    record_count: cython.int,
    base_timestamp: cython.longlong,
    timestamp: cython.longlong,
) -> tuple[int, int] | None:
    """
    Return (offset delta, timestamp) of the first record whose timestamp is at least `timestamp`, or None.

    Timestamps are in milliseconds.  Raise MalformedRecords.
    """
    walk: Walk = Walk(block, position, end, base_timestamp)
    index: cython.int
    for index in range(record_count):
        if not walk.step():
            raise MalformedRecords(f"record {index}: {PROBLEMS[walk.problem]}")
        if walk.timestamp >= timestamp:
            return walk.offset_delta, walk.timestamp
    return None


def first_with_headers(
    block: object,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    record_count: cython.int,
    headers_max: cython.Py_ssize_t,
) -> int:
    """
    Return the index of the first record with more than `headers_max` headers; -1 if there is none, or if a malformed
    record comes before it.
    """
    walk: Walk = Walk(block, position, end, 0)
    index: cython.int
    for index in range(record_count):
        if not walk.step():
            return -1
        if walk.header_count > headers_max:
            return index
    return -1


# Reading records


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _stop(
    data: cython.pointer[cython.const[cython.uchar]],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    size_max: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """
    Return the position after the varint at `position`.

    Return -1 if the varint does not end before `end`, or is longer than `size_max` bytes.
    """
    if position < end and data[position] < 0x80:
        return position + 1
    limit: cython.Py_ssize_t = end if end - position < size_max else position + size_max
    place: cython.Py_ssize_t = position
    while place < limit:
        if data[place] < 0x80:
            if place - position == 9 and data[place] > 1:
                return -1  # The tenth byte of a 64-bit varint has only one bit.
            return place + 1
        place += 1
    return -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _number(
    data: cython.pointer[cython.const[cython.uchar]], position: cython.Py_ssize_t, stop: cython.Py_ssize_t
) -> cython.longlong:
    """Return the value of the varint at data[position:stop]."""
    zigzag: cython.ulonglong = data[position] & 0x7F
    shift: cython.int = 7
    position += 1
    while position < stop:
        zigzag |= cython.cast(cython.ulonglong, data[position] & 0x7F) << shift
        shift += 7
        position += 1
    return (zigzag >> 1) ^ -(zigzag & 1)


@cython.final
@cython.cclass
class Walk:
    """A read position in a block, and the fields of the record that was read last."""

    view: cython.const[cython.uchar][::1]  # type: ignore[valid-type]  # prevents freeing or resizing of the buffer
    data: cython.pointer[cython.const[cython.uchar]]
    position: cython.Py_ssize_t
    end: cython.Py_ssize_t
    base_timestamp: cython.longlong

    problem: cython.int
    record_index: cython.int
    timestamp_min: cython.longlong
    timestamp_max: cython.longlong

    timestamp: cython.longlong
    offset_delta: cython.longlong
    key_start: cython.Py_ssize_t  # of its length
    key: cython.Py_ssize_t
    key_length: cython.Py_ssize_t  # -1: null
    value: cython.Py_ssize_t
    value_length: cython.Py_ssize_t
    headers: cython.Py_ssize_t
    header_count: cython.Py_ssize_t

    def __init__(
        self,
        block: object,
        position: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        base_timestamp: cython.longlong,
    ) -> None:
        self.view = block
        if position < 0 or position > end or end > len(self.view):
            raise MalformedRecords(
                f"a block from {position} to {end} does not lie in a buffer of {len(self.view)} bytes"
            )
        if cython.compiled:
            self.data = cython.address(self.view[0])
        else:
            self.data = self.view
        self.position = position
        self.end = end
        self.base_timestamp = base_timestamp
        self.problem = 0
        self.record_index = 0
        self.timestamp_min = INT64_MAX
        self.timestamp_max = INT64_MIN

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def check_all(self, record_count: cython.int) -> cython.void:
        """Do the work of `check_records` without the GIL; set `problem`, `record_index` and the timestamp bounds."""
        index: cython.int
        for index in range(record_count):
            if not self.step():
                self.record_index = index
                return
            if self.offset_delta != index:
                self.problem = OFFSET_PROBLEM
                self.record_index = index
                return
            if self.timestamp < self.timestamp_min:
                self.timestamp_min = self.timestamp
            if self.timestamp > self.timestamp_max:
                self.timestamp_max = self.timestamp
        self.record_index = record_count
        if self.position != self.end:
            self.problem = REST_PROBLEM

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def step(self) -> cython.bint:
        """Read the next record.  Return False and set `problem` if it is malformed."""
        data: cython.pointer[cython.const[cython.uchar]] = self.data
        position: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        number: cython.longlong

        stop = _stop(data, self.position, self.end, 5)
        if stop < 0:
            return self.refuse(LENGTH_PROBLEM)
        number = _number(data, self.position, stop)
        if number < 1 or number > self.end - stop:
            return self.refuse(LENGTH_PROBLEM)
        end: cython.Py_ssize_t = stop + number
        position = stop + 1  # Skip the attributes, of which none are defined.

        stop = _stop(data, position, end, 10)
        if stop < 0:
            return self.refuse(TIMESTAMP_PROBLEM)
        number = _number(data, position, stop)
        if number > 0:
            if self.base_timestamp > INT64_MAX - number:
                return self.refuse(TIMESTAMP_PROBLEM)
        elif self.base_timestamp < INT64_MIN - number:
            return self.refuse(TIMESTAMP_PROBLEM)
        self.timestamp = self.base_timestamp + number
        position = stop

        stop = _stop(data, position, end, 5)
        if stop < 0:
            return self.refuse(OFFSET_PROBLEM)
        self.offset_delta = _number(data, position, stop)
        if self.offset_delta < 0 or self.offset_delta > 0x7FFFFFFF:
            return self.refuse(OFFSET_PROBLEM)
        position = stop

        self.key_start = position
        stop = _stop(data, position, end, 5)
        if stop < 0:
            return self.refuse(KEY_PROBLEM)
        number = _number(data, position, stop)
        if number < -1 or number > end - stop:
            return self.refuse(KEY_PROBLEM)
        self.key = stop
        self.key_length = number
        position = stop + number if number > 0 else stop

        stop = _stop(data, position, end, 5)
        if stop < 0:
            return self.refuse(VALUE_PROBLEM)
        number = _number(data, position, stop)
        if number < -1 or number > end - stop:
            return self.refuse(VALUE_PROBLEM)
        self.value = stop
        self.value_length = number
        position = stop + number if number > 0 else stop

        stop = _stop(data, position, end, 5)
        if stop < 0:
            return self.refuse(HEADERS_PROBLEM)
        number = _number(data, position, stop)
        if number < 0 or number > (end - stop) // 2:  # A header has at least two bytes.
            return self.refuse(HEADERS_PROBLEM)
        self.headers = stop
        self.header_count = number
        position = stop if number == 0 else self.after_headers(stop, end, number)
        if position < 0:
            return self.refuse(HEADERS_PROBLEM)
        if position != end:
            return self.refuse(SIZE_PROBLEM)
        self.position = end
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def after_headers(
        self, position: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.longlong
    ) -> cython.Py_ssize_t:
        """Return the position after `count` headers, or -1 if they are malformed or do not end before `end`."""
        stop: cython.Py_ssize_t
        number: cython.longlong
        while count > 0:
            stop = _stop(self.data, position, end, 5)
            if stop < 0:
                return -1
            number = _number(self.data, position, stop)
            if number < 0 or number > end - stop:  # The name of a header is never null.
                return -1
            position = stop + number
            stop = _stop(self.data, position, end, 5)
            if stop < 0:
                return -1
            number = _number(self.data, position, stop)
            if number < -1 or number > end - stop:
                return -1
            position = stop + number if number > 0 else stop
            count -= 1
        return position

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def refuse(self, problem: cython.int) -> cython.bint:
        self.problem = problem
        return False


# Records → tuples


def decode_records(
    block: object,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    record_count: cython.int,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    first: cython.longlong,
    last: cython.longlong,
    limit: cython.longlong,
    headers_max: cython.longlong = 0x7FFFFFFFFFFFFFFF,
    headers_each: cython.longlong = 0x7FFFFFFFFFFFFFFF,
    name_errors: str = "replace",
) -> list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int, int]]:
    """
    Return (key, value, headers, timestamp, offset) of the records with offsets from `first` to `last`, at most `limit`,
    and only as many as have `headers_max` headers together; of each record, only the first `headers_each` headers.

    What follows them is not checked.  Invalid UTF-8 in the name of a header is replaced, as Java's clients do, or with
    `name_errors`, as `bytes.decode` has it.  Raise MalformedRecords; TooManyHeaders if the first one of these records
    alone has more headers.
    """
    walk: Walk = Walk(block, position, end, base_timestamp)
    if base_offset < 0 or base_offset > INT64_MAX - 0x80000000:
        raise MalformedRecords(f"base offset {base_offset} is negative, or so large that offsets may exceed 64 bits")
    found: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int, int]] = []
    index: cython.int
    offset: cython.longlong
    count: cython.longlong
    for index in range(record_count):
        if not walk.step():
            raise MalformedRecords(f"record {index}: {PROBLEMS[walk.problem]}")
        offset = base_offset + walk.offset_delta
        if offset < first:
            continue
        if offset > last or limit <= 0:
            return found
        count = min(walk.header_count, headers_each)
        if count > headers_max:
            if found:
                return found
            raise TooManyHeaders(f"record {index}: it has {walk.header_count} headers, more than {headers_max}")
        headers_max -= count
        key = _content(walk, walk.key, walk.key_length)
        value = _content(walk, walk.value, walk.value_length)
        headers = _headers(walk, count, name_errors) if count else ()
        found.append((key, value, headers, walk.timestamp, offset))
        limit -= 1
    if walk.position != end:
        raise MalformedRecords(f"record {record_count}: {PROBLEMS[REST_PROBLEM]}")
    return found


@cython.cfunc
def _content(walk: Walk, position: cython.Py_ssize_t, length: cython.Py_ssize_t) -> object:
    return None if length < 0 else bytes(walk.data[position : position + length])


@cython.cfunc
def _headers(walk: Walk, count: cython.longlong, name_errors: str) -> object:
    """Return the first `count` headers of the current record.  `walk.step` has checked their lengths."""
    found: list[tuple[str, object]] = []
    position: cython.Py_ssize_t = walk.headers
    stop: cython.Py_ssize_t
    length: cython.Py_ssize_t
    left: cython.longlong = count
    while left > 0:
        stop = _stop(walk.data, position, walk.end, 5)
        position = stop + _number(walk.data, position, stop)
        name = bytes(walk.data[stop:position]).decode("utf-8", name_errors)
        stop = _stop(walk.data, position, walk.end, 5)
        length = _number(walk.data, position, stop)
        found.append((name, _content(walk, stop, length)))
        position = stop + length if length > 0 else stop
        left -= 1
    return tuple(found)


# Records → places


def record_places(
    block: object,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    record_count: cython.int,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    first: cython.longlong,
    limit: cython.longlong,
    name: bytes,
    is_last: cython.bint,
) -> tuple[list[tuple[int, int, int, int, int, int]], int, int]:
    """
    Return where the keys of records lie, and the values of their headers `name`, without decoding anything else: so few
    bytes of memory are taken, whatever a record has.

    The first result has (offset, timestamp, key, its length, value, its length) of at most `limit` records with offsets
    from `first` on.  A length is -1 for null, and -2 if there is no such header.  Of several headers of that name, the
    first one counts, or with `is_last` the last one; with an empty name, none is looked for.  The other results, the
    position behind these records and how many follow, are passed to the next call.  Raise MalformedRecords.
    """
    walk: Walk = Walk(block, position, end, base_timestamp)
    if base_offset < 0 or base_offset > INT64_MAX - 0x80000000:
        raise MalformedRecords(f"base offset {base_offset} is negative, or so large that offsets may exceed 64 bits")
    found: list[tuple[int, int, int, int, int, int]] = []
    left: cython.int = record_count
    offset: cython.longlong
    start: cython.Py_ssize_t
    length: cython.Py_ssize_t
    while left > 0 and limit > 0:
        if not walk.step():
            raise MalformedRecords(f"{left} records before the end: {PROBLEMS[walk.problem]}")
        left -= 1
        offset = base_offset + walk.offset_delta
        if offset < first:
            continue
        start, length = 0, -2
        if walk.header_count > 0 and len(name) > 0:
            start = _header_place(walk, name, is_last)
            if start > 0:
                position = _stop(walk.data, start, walk.end, 5)
                start, length = position, _number(walk.data, start, position)
        found.append((offset, walk.timestamp, walk.key, walk.key_length, start, length))
        limit -= 1
    if left <= 0 and walk.position != end:
        raise MalformedRecords(PROBLEMS[REST_PROBLEM])
    return found, walk.position, left


@cython.cfunc
@cython.exceptval(check=False)
def _header_place(walk: Walk, name: bytes, is_last: cython.bint) -> cython.Py_ssize_t:
    """
    Return where the value of a header of the current record begins, with its length; 0 if there is no such header.
    `walk.step` has checked the lengths.
    """
    found: cython.Py_ssize_t = 0
    position: cython.Py_ssize_t = walk.headers
    start: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    length: cython.Py_ssize_t
    left: cython.Py_ssize_t = walk.header_count
    while left > 0:
        start = _stop(walk.data, position, walk.end, 5)
        stop = start + _number(walk.data, position, start)
        if stop - start == len(name) and _begins_with(walk.data, start, stop, name):
            found = stop
            if not is_last:
                return found
        position = _stop(walk.data, stop, walk.end, 5)
        length = _number(walk.data, stop, position)
        position = position + length if length > 0 else position
        left -= 1
    return found


# Records → numbers, for timer topics


def header_counts(block: object, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> array[int]:
    """Return how many headers each record of block[position:end] has.  Raise MalformedRecords."""
    walk: Walk = Walk(block, position, end, 0)
    counts = array("I")
    while walk.position < end:
        if not walk.step():
            raise MalformedRecords(f"record {len(counts)}: {PROBLEMS[walk.problem]}")
        counts.append(walk.header_count)
    return counts


def record_starts(block: object, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> array[int]:
    """Return where each record of block[position:end] begins, and `end`.  Raise MalformedRecords."""
    walk: Walk = Walk(block, position, end, 0)
    starts = array("I")
    while walk.position < end:
        starts.append(walk.position)
        if not walk.step():
            raise MalformedRecords(f"record {len(starts) - 1}: {PROBLEMS[walk.problem]}")
    starts.append(end)
    return starts


def largest_record(block: object, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> int:
    """
    Return how many bytes the largest record of block[position:end] has, with its length; 0 if there is none.  Raise
    MalformedRecords.
    """
    walk: Walk = Walk(block, position, end, 0)
    largest: cython.Py_ssize_t = 0
    start: cython.Py_ssize_t
    while walk.position < end:
        start = walk.position
        if not walk.step():
            raise MalformedRecords(f"a record at {start}: {PROBLEMS[walk.problem]}")
        if walk.position - start > largest:
            largest = walk.position - start
    return largest


def found_headers(
    block: object,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    record_count: cython.int,
    names: tuple[bytes, ...],
    prefix: bytes,
    headers_max: cython.longlong,
) -> array[int]:
    """
    Return where the headers with some names are, which begin with `prefix`: four numbers for each, in their order.

    The numbers are the index of the record, that of the name in `names`, and where the value begins and how long it is;
    -1 if it is null.  Raise MalformedRecords; TooManyHeaders if a record has more than `headers_max`.
    """
    walk: Walk = Walk(block, position, end, 0)
    found = array("q")
    part = memoryview(bytearray(FOUND_BYTES))  # the numbers of some headers, which are added to `found` together
    numbers: cython.longlong[::1] = part.cast("q")
    size: cython.Py_ssize_t = 0
    index: cython.int
    left: cython.Py_ssize_t
    start: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    kind: cython.Py_ssize_t
    for index in range(record_count):
        if not walk.step():
            raise MalformedRecords(f"record {index}: {PROBLEMS[walk.problem]}")
        if walk.header_count > headers_max:
            raise TooManyHeaders(f"record {index}: it has {walk.header_count} headers, more than {headers_max}")
        position = walk.headers
        left = walk.header_count
        while left > 0:
            start = _stop(walk.data, position, walk.end, 5)
            stop = start + _number(walk.data, position, start)
            kind = _name_index(walk.data, start, stop, names) if _begins_with(walk.data, start, stop, prefix) else -1
            start = _stop(walk.data, stop, walk.end, 5)
            position = start + max(_number(walk.data, stop, start), 0)
            if kind >= 0:
                numbers[size] = index
                numbers[size + 1] = kind
                numbers[size + 2] = start
                numbers[size + 3] = _number(walk.data, stop, start)
                size += 4
                if size == len(numbers):
                    found.frombytes(part)
                    size = 0
            left -= 1
    if walk.position != end:
        raise MalformedRecords(f"record {record_count}: {PROBLEMS[REST_PROBLEM]}")
    found.frombytes(part[: 8 * size])
    return found


def header_numbers(
    block: object,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    record_count: cython.int,
    name: bytes,
    prefix: bytes,
    otherwise: cython.longlong,
) -> list[int] | None:
    """
    Return for each record the number that its header `name` has as decimal digits; `otherwise` if it has no such
    header.

    Return None if a caller must look closer: if a record has such a header twice, or with anything but 1 to 18 digits,
    or another header whose name begins with `prefix`, as `name` does.  Raise MalformedRecords.
    """
    walk: Walk = Walk(block, position, end, 0)
    found: list[int] = []
    number: cython.longlong
    index: cython.int
    for index in range(record_count):
        if not walk.step():
            raise MalformedRecords(f"record {index}: {PROBLEMS[walk.problem]}")
        number = otherwise if walk.header_count == 0 else _header_number(walk, name, prefix, otherwise)
        if number == AMBIGUOUS:
            return None
        found.append(number)
    return found


@cython.cfunc
def _header_number(walk: Walk, name: bytes, prefix: bytes, otherwise: cython.longlong) -> cython.longlong:
    """Return the number for the current record, or AMBIGUOUS.  `walk.step` has checked the lengths."""
    number: cython.longlong = otherwise
    is_found: cython.bint = False
    position: cython.Py_ssize_t = walk.headers
    start: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    length: cython.Py_ssize_t
    left: cython.Py_ssize_t = walk.header_count
    while left > 0:
        start = _stop(walk.data, position, walk.end, 5)
        stop = start + _number(walk.data, position, start)
        position = _stop(walk.data, stop, walk.end, 5)
        length = _number(walk.data, stop, position)
        if _begins_with(walk.data, start, stop, prefix):
            if is_found or stop - start != len(name) or not _begins_with(walk.data, start, stop, name):
                return AMBIGUOUS
            is_found = True
            number = _digits(walk.data, position, length)
            if number < 0:
                return AMBIGUOUS
        position = position + length if length > 0 else position
        left -= 1
    return number


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _begins_with(
    data: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    prefix: bytes,
) -> cython.bint:
    wanted: cython.pointer[cython.const[cython.uchar]] = prefix
    length: cython.Py_ssize_t = len(prefix)
    index: cython.Py_ssize_t = 0
    if stop - start < length:
        return False
    while index < length and data[start + index] == wanted[index]:
        index += 1
    return index == length


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _digits(
    data: cython.pointer[cython.const[cython.uchar]], position: cython.Py_ssize_t, length: cython.Py_ssize_t
) -> cython.longlong:
    """Return the number that 1 to 18 decimal digits write; -1 for anything else."""
    number: cython.longlong = 0
    index: cython.Py_ssize_t
    if length < 1 or length > 18:
        return -1
    for index in range(position, position + length):
        if data[index] < 48 or data[index] > 57:
            return -1
        number = 10 * number + (data[index] - 48)
    return number


def header_values(
    block: object,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    record_count: cython.int,
    names: tuple[bytes, ...],
    prefix: bytes,
) -> list[tuple[int, list[bytes | None]]]:
    """
    Return for each record how many of its headers have names that begin with `prefix`, and the values of those with
    `names`, which begin so.

    A value is None if the record has no such header, and empty if it is null.  If a header is there twice, the last one
    counts.  Raise MalformedRecords.
    """
    walk: Walk = Walk(block, position, end, 0)
    found: list[tuple[int, list[bytes | None]]] = []
    index: cython.int
    for index in range(record_count):
        if not walk.step():
            raise MalformedRecords(f"record {index}: {PROBLEMS[walk.problem]}")
        values: list[bytes | None] = [None] * len(names)
        found.append((_find_values(walk, names, prefix, values), values))
    return found


@cython.cfunc
def _find_values(walk: Walk, names: tuple[bytes, ...], prefix: bytes, values: list[bytes | None]) -> cython.int:
    """Set values of headers of the current record; return how many names begin with `prefix`."""
    count: cython.int = 0
    position: cython.Py_ssize_t = walk.headers
    start: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    length: cython.Py_ssize_t
    left: cython.Py_ssize_t = walk.header_count
    while left > 0:
        start = _stop(walk.data, position, walk.end, 5)
        stop = start + _number(walk.data, position, start)
        position = _stop(walk.data, stop, walk.end, 5)
        length = max(_number(walk.data, stop, position), 0)
        if _begins_with(walk.data, start, stop, prefix):
            count += 1
            name = bytes(walk.data[start:stop])
            if name in names:
                values[names.index(name)] = bytes(walk.data[position : position + length])
        position += length
        left -= 1
    return count


def index_rows(
    block: object,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    base_timestamp: cython.longlong,
    dues: list[int],
    arrivals: list[int],
    first_offset: cython.ulonglong,
    file_position: cython.longlong,
    crc32c: Callable[..., int],
) -> bytes:
    """
    Return a row of the index by due time for each record, packed (`timer/due_row.py`).

    `dues` and `arrivals` have one number for each record.  `file_position` is that of the block in the file of its
    segment, or negative if it is not known; the rows then say so.  Raise MalformedRecords.
    """
    walk: Walk = Walk(block, position, end, base_timestamp)
    view = memoryview(block)  # type: ignore[arg-type]
    count: cython.Py_ssize_t = len(dues)
    if len(arrivals) != count:
        raise ValueError(f"{count} due times for {len(arrivals)} arrivals")
    packed = bytearray(ROW_BYTES * count)
    out: cython.uchar[::1] = packed
    index: cython.Py_ssize_t
    at: cython.Py_ssize_t = 0
    start: cython.Py_ssize_t
    for index in range(count):
        start = walk.position
        if not walk.step():
            raise MalformedRecords(f"record {index}: {PROBLEMS[walk.problem]}")
        _put_number(out, at, 8, dues[index])
        _put_number(out, at + 8, 8, arrivals[index])
        _put_number(out, at + 16, 8, first_offset + index)
        if file_position < 0:
            _put_number(out, at + 24, 4, UNPLACED)
        else:
            _put_number(out, at + 24, 4, file_position + start)
            _put_number(out, at + 28, 4, walk.position - start)
            _put_number(out, at + 32, 4, crc32c(view[start : walk.position]))
        if walk.key_length >= 0:
            _put_number(out, at + 36, 4, crc32c(view[walk.key : walk.key + walk.key_length]))
        _put_number(out, at + 40, 8, cython.cast(cython.ulonglong, walk.timestamp))
        at += ROW_BYTES
    return bytes(packed)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_number(
    out: cython.uchar[::1], position: cython.Py_ssize_t, size: cython.int, number: cython.ulonglong
) -> cython.void:
    """Write the lowest `size` bytes of a number, big-endian."""
    index: cython.int
    for index in range(size):
        out[position + size - 1 - index] = number >> (8 * index) & 0xFF


# Records → columns


@cython.final
@cython.cclass
class ColumnFill:
    """
    Decodes records into column buffers in Arrow's layout.

    The caller allocates the buffers and passes those of each wanted column to a `want_*` method.  A fixed-width buffer
    has one slot per row.  Each `valid` has one bit per row, initially zero; each `ends` has one more slot than there
    are rows; each `data` has at least as many bytes as all blocks together.  If a block does not fit, `add` rejects it
    before writing any data.
    """

    rows = cython.declare(cython.Py_ssize_t, visibility="readonly")
    key_bytes = cython.declare(cython.Py_ssize_t, visibility="readonly")
    key_nulls = cython.declare(cython.Py_ssize_t, visibility="readonly")
    value_bytes = cython.declare(cython.Py_ssize_t, visibility="readonly")
    value_nulls = cython.declare(cython.Py_ssize_t, visibility="readonly")
    headerless = cython.declare(cython.Py_ssize_t, visibility="readonly")
    header_count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    header_name_bytes = cython.declare(cython.Py_ssize_t, visibility="readonly")
    header_value_bytes = cython.declare(cython.Py_ssize_t, visibility="readonly")
    header_value_nulls = cython.declare(cython.Py_ssize_t, visibility="readonly")

    rows_max: cython.Py_ssize_t
    bytes_max: cython.Py_ssize_t
    bytes_seen: cython.Py_ssize_t
    start_offset: cython.longlong
    end_offset: cython.longlong
    append_time: cython.longlong
    has_append_time: cython.bint

    wants_offsets: cython.bint
    wants_timestamps: cython.bint
    wants_types: cython.bint
    wants_keys: cython.bint
    wants_values: cython.bint
    wants_headers: cython.bint

    offsets: cython.longlong[::1]
    timestamps: cython.longlong[::1]
    timestamp_types: cython.int[::1]
    key_ends: cython.int[::1]
    key_valid: cython.uchar[::1]
    key_data: cython.uchar[::1]
    value_ends: cython.int[::1]
    value_valid: cython.uchar[::1]
    value_data: cython.uchar[::1]
    header_ends: cython.int[::1]
    header_valid: cython.uchar[::1]
    header_name_ends: cython.int[::1]
    header_name_data: cython.uchar[::1]
    header_value_ends: cython.int[::1]
    header_value_valid: cython.uchar[::1]
    header_value_data: cython.uchar[::1]

    def __init__(
        self,
        rows_max: cython.Py_ssize_t,
        bytes_max: cython.Py_ssize_t,
        start_offset: cython.longlong,
        end_offset: cython.longlong,
    ) -> None:
        """
        Prepare for at most `rows_max` rows from blocks with at most `bytes_max` bytes in total.

        Records with offsets outside [start_offset, end_offset) are skipped.  Raise ValueError if `bytes_max` is too
        large for 32-bit offsets.
        """
        if bytes_max > 0x7FFFFFFF:
            raise ValueError(
                f"{bytes_max} bytes of records are too many for columns with 32-bit offsets; decode them in parts"
            )
        self.rows_max = rows_max
        self.bytes_max = bytes_max
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.rows = self.bytes_seen = 0
        self.key_bytes = self.key_nulls = self.value_bytes = self.value_nulls = 0
        self.headerless = self.header_count = 0
        self.header_name_bytes = self.header_value_bytes = self.header_value_nulls = 0
        self.wants_offsets = self.wants_timestamps = self.wants_types = False
        self.wants_keys = self.wants_values = self.wants_headers = False

    def want_offsets(self, offsets: object) -> None:
        self.offsets = offsets
        self.wants_offsets = _has_room(len(self.offsets), self.rows_max)

    def want_timestamps(self, timestamps: object) -> None:
        """Fill `timestamps`, in microseconds.  Values out of range are replaced by the nearest possible value."""
        self.timestamps = timestamps
        self.wants_timestamps = _has_room(len(self.timestamps), self.rows_max)

    def want_timestamp_types(self, timestamp_types: object) -> None:
        """Fill `timestamp_types`: 0 for CreateTime, 1 for LogAppendTime."""
        self.timestamp_types = timestamp_types
        self.wants_types = _has_room(len(self.timestamp_types), self.rows_max)

    def want_keys(self, ends: object, valid: object, data: object) -> None:
        self.key_ends, self.key_valid, self.key_data = ends, valid, data
        _has_room(len(self.key_ends), self.rows_max + 1)
        _has_room(len(self.key_valid), (self.rows_max + 7) // 8)
        self.wants_keys = _has_room(len(self.key_data), self.bytes_max)
        self.key_ends[0] = 0

    def want_values(self, ends: object, valid: object, data: object) -> None:
        self.value_ends, self.value_valid, self.value_data = ends, valid, data
        _has_room(len(self.value_ends), self.rows_max + 1)
        _has_room(len(self.value_valid), (self.rows_max + 7) // 8)
        self.wants_values = _has_room(len(self.value_data), self.bytes_max)
        self.value_ends[0] = 0

    def want_headers(
        self,
        ends: object,
        valid: object,
        name_ends: object,
        name_data: object,
        value_ends: object,
        value_valid: object,
        value_data: object,
    ) -> None:
        """
        Fill the buffers of the headers column.

        `ends` and `valid` have an item per row, the other buffers per header.  A header has at least two bytes, so
        there are at most `bytes_max` // 2 headers.
        """
        self.header_ends, self.header_valid = ends, valid
        self.header_name_ends, self.header_name_data = name_ends, name_data
        self.header_value_ends, self.header_value_valid, self.header_value_data = value_ends, value_valid, value_data
        _has_room(len(self.header_ends), self.rows_max + 1)
        _has_room(len(self.header_valid), (self.rows_max + 7) // 8)
        _has_room(len(self.header_name_ends), self.bytes_max // 2 + 1)
        _has_room(len(self.header_name_data), self.bytes_max)
        _has_room(len(self.header_value_ends), self.bytes_max // 2 + 1)
        _has_room(len(self.header_value_valid), self.bytes_max // 16 + 1)
        self.wants_headers = _has_room(len(self.header_value_data), self.bytes_max)
        self.header_ends[0] = self.header_name_ends[0] = self.header_value_ends[0] = 0

    def add(
        self,
        block: object,
        position: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        record_count: cython.int,
        base_offset: cython.longlong,
        base_timestamp: cython.longlong,
        append_time: object = None,
    ) -> None:
        """
        Add the records of one batch.  Raise MalformedRecords.

        `append_time` (milliseconds), if given, replaces the records' own timestamps (LogAppendTime).
        """
        walk: Walk = Walk(block, position, end, base_timestamp)
        if record_count < 0 or self.rows + record_count > self.rows_max:
            raise MalformedRecords(
                f"record count {record_count} is negative or too large: {self.rows} of {self.rows_max} rows are in use"
            )
        if self.bytes_seen + (end - position) > self.bytes_max:
            raise MalformedRecords(
                f"{end - position} bytes do not fit: {self.bytes_seen} of {self.bytes_max} bytes are in use"
            )
        if base_offset < 0 or base_offset > INT64_MAX - 0x80000000:
            raise MalformedRecords(
                f"base offset {base_offset} is negative, or so large that record offsets may exceed 64 bits"
            )
        self.bytes_seen += end - position
        self.has_append_time = append_time is not None
        self.append_time = 0 if append_time is None else append_time
        if end - position > GIL_BYTES_MAX:
            with cython.nogil:
                self.add_all(walk, record_count, base_offset)
        else:
            self.add_all(walk, record_count, base_offset)
        if walk.problem != 0:
            raise MalformedRecords(f"record {walk.record_index}: {PROBLEMS[walk.problem]}")

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def add_all(self, walk: Walk, record_count: cython.int, base_offset: cython.longlong) -> cython.void:
        index: cython.int
        offset: cython.longlong
        timestamp: cython.longlong
        row: cython.Py_ssize_t
        for index in range(record_count):
            if not walk.step():
                walk.record_index = index
                return
            offset = base_offset + walk.offset_delta
            if offset < self.start_offset:
                continue
            if offset >= self.end_offset:
                return
            row = self.rows
            if self.wants_offsets:
                self.offsets[row] = offset
            if self.wants_timestamps:
                timestamp = self.append_time if self.has_append_time else walk.timestamp
                if timestamp > MILLISECONDS_MAX:
                    timestamp = MILLISECONDS_MAX
                elif timestamp < -MILLISECONDS_MAX:
                    timestamp = -MILLISECONDS_MAX
                self.timestamps[row] = timestamp * 1000
            if self.wants_types:
                self.timestamp_types[row] = 1 if self.has_append_time else 0
            if self.wants_keys:
                self.add_key(walk, row)
            if self.wants_values:
                self.add_value(walk, row)
            if self.wants_headers:
                self.add_headers(walk, row)
            self.rows = row + 1
        if walk.position != walk.end:
            walk.problem = REST_PROBLEM
            walk.record_index = record_count

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def add_key(self, walk: Walk, row: cython.Py_ssize_t) -> cython.void:
        if walk.key_length < 0:
            self.key_nulls += 1
        else:
            self.key_valid[row >> 3] |= 1 << (row & 7)
            _copy(self.key_data, self.key_bytes, walk.data, walk.key, walk.key_length)
            self.key_bytes += walk.key_length
        self.key_ends[row + 1] = self.key_bytes

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def add_value(self, walk: Walk, row: cython.Py_ssize_t) -> cython.void:
        if walk.value_length < 0:
            self.value_nulls += 1
        else:
            self.value_valid[row >> 3] |= 1 << (row & 7)
            _copy(self.value_data, self.value_bytes, walk.data, walk.value, walk.value_length)
            self.value_bytes += walk.value_length
        self.value_ends[row + 1] = self.value_bytes

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def add_headers(self, walk: Walk, row: cython.Py_ssize_t) -> cython.void:
        """Add the headers of the current record.  `walk.step` has checked their lengths."""
        position: cython.Py_ssize_t = walk.headers
        stop: cython.Py_ssize_t
        length: cython.Py_ssize_t
        entry: cython.Py_ssize_t
        left: cython.Py_ssize_t = walk.header_count
        if left == 0:
            self.headerless += 1
        else:
            self.header_valid[row >> 3] |= 1 << (row & 7)
        while left > 0:
            entry = self.header_count
            stop = _stop(walk.data, position, walk.end, 5)
            length = _number(walk.data, position, stop)
            _copy(self.header_name_data, self.header_name_bytes, walk.data, stop, length)
            self.header_name_bytes += length
            self.header_name_ends[entry + 1] = self.header_name_bytes
            position = stop + length
            stop = _stop(walk.data, position, walk.end, 5)
            length = _number(walk.data, position, stop)
            position = stop
            if length < 0:
                self.header_value_nulls += 1
            else:
                self.header_value_valid[entry >> 3] |= 1 << (entry & 7)
                _copy(self.header_value_data, self.header_value_bytes, walk.data, stop, length)
                self.header_value_bytes += length
                position += length
            self.header_value_ends[entry + 1] = self.header_value_bytes
            self.header_count = entry + 1
            left -= 1
        self.header_ends[row + 1] = self.header_count


@cython.cfunc
def _has_room(slots: cython.Py_ssize_t, wanted: cython.Py_ssize_t) -> cython.bint:
    if slots < wanted:
        raise ValueError(f"a column buffer has {slots} slots, but {wanted} are needed")
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _copy(
    into: cython.uchar[::1],
    place: cython.Py_ssize_t,
    data: cython.pointer[cython.const[cython.uchar]],
    position: cython.Py_ssize_t,
    length: cython.Py_ssize_t,
) -> cython.void:
    index: cython.Py_ssize_t
    if cython.compiled:
        for index in range(length):
            into[place + index] = data[position + index]
    else:
        into[place : place + length] = data[position : position + length]


# Columns → records


@cython.final
@cython.cclass
class ColumnRecords:
    """
    Encodes rows of Arrow buffers as records.

    Each `ends` contains Arrow's offsets, one more than there are rows, starting with row 0's.  Each `valid` is a bitmap
    in which bit number `bit` belongs to row 0, or None if no value is null.  Offsets are checked before use.
    """

    rows = cython.declare(cython.Py_ssize_t, visibility="readonly")
    position = cython.declare(cython.Py_ssize_t, visibility="readonly")  # of the next record, in bytes
    timestamp_max = cython.declare(cython.longlong, visibility="readonly")  # of the rows in the last `write`
    # The size of the record that did not fit in the last `write`; 0 if all records fitted.
    bytes_wanted = cython.declare(cython.Py_ssize_t, visibility="readonly")

    problem: cython.bint
    timestamps: cython.const[cython.longlong][::1]  # type: ignore[valid-type]
    has_order: cython.bint
    order: cython.const[cython.int][::1]  # type: ignore[valid-type]
    places: cython.Py_ssize_t  # how many rows can be written: those in `order`, or all rows
    has_keys: cython.bint
    key_ends: cython.const[cython.int][::1]  # type: ignore[valid-type]
    key_data: cython.const[cython.uchar][::1]  # type: ignore[valid-type]
    key_valid: cython.const[cython.uchar][::1]  # type: ignore[valid-type]
    key_bit: cython.Py_ssize_t
    has_values: cython.bint
    value_ends: cython.const[cython.int][::1]  # type: ignore[valid-type]
    value_data: cython.const[cython.uchar][::1]  # type: ignore[valid-type]
    value_valid: cython.const[cython.uchar][::1]  # type: ignore[valid-type]
    value_bit: cython.Py_ssize_t
    has_headers: cython.bint
    header_ends: cython.const[cython.int][::1]  # type: ignore[valid-type]
    header_valid: cython.const[cython.uchar][::1]  # type: ignore[valid-type]
    header_bit: cython.Py_ssize_t
    name_ends: cython.const[cython.int][::1]  # type: ignore[valid-type]
    name_data: cython.const[cython.uchar][::1]  # type: ignore[valid-type]
    content_ends: cython.const[cython.int][::1]  # type: ignore[valid-type]
    content_data: cython.const[cython.uchar][::1]  # type: ignore[valid-type]
    content_valid: cython.const[cython.uchar][::1]  # type: ignore[valid-type]
    content_bit: cython.Py_ssize_t
    out: cython.uchar[::1]

    def __init__(self, rows: cython.Py_ssize_t, timestamps: object) -> None:
        """Prepare to encode `rows` rows with these timestamps, in milliseconds."""
        self.rows = self.places = rows
        self.timestamps = timestamps
        _has_room(len(self.timestamps), rows)
        self.has_order = self.has_keys = self.has_values = self.has_headers = False
        self.key_valid = self.value_valid = self.header_valid = self.content_valid = b""
        self.key_bit = self.value_bit = self.header_bit = self.content_bit = -1  # -1: there is no bitmap

    def have_order(self, order: object) -> None:
        """
        Write the rows whose numbers are in `order`, in this order.  The row numbers passed to `write` are then indexes
        into `order`.
        """
        self.order = order
        self.places = len(self.order)
        self.has_order = True

    def have_keys(self, ends: object, data: object, valid: object, bit: cython.Py_ssize_t) -> None:
        self.key_ends, self.key_data = ends, data
        self.has_keys = _has_room(len(self.key_ends), self.rows + 1)
        if valid is not None:
            self.key_valid, self.key_bit = valid, bit
            _has_room(8 * len(self.key_valid), bit + self.rows)

    def have_values(self, ends: object, data: object, valid: object, bit: cython.Py_ssize_t) -> None:
        self.value_ends, self.value_data = ends, data
        self.has_values = _has_room(len(self.value_ends), self.rows + 1)
        if valid is not None:
            self.value_valid, self.value_bit = valid, bit
            _has_room(8 * len(self.value_valid), bit + self.rows)

    def have_headers(self, ends: object, valid: object, bit: cython.Py_ssize_t) -> None:
        """
        Set the range of header entries of each row: from the row's offset in `ends` to that of the next row.

        `have_header_entries` must be called afterwards.
        """
        self.header_ends = ends
        _has_room(len(self.header_ends), self.rows + 1)
        if valid is not None:
            self.header_valid, self.header_bit = valid, bit
            _has_room(8 * len(self.header_valid), bit + self.rows)

    def have_header_entries(
        self,
        name_ends: object,
        name_data: object,
        content_ends: object,
        content_data: object,
        content_valid: object,
        content_bit: cython.Py_ssize_t,
    ) -> None:
        self.name_ends, self.name_data = name_ends, name_data
        self.content_ends, self.content_data = content_ends, content_data
        _has_room(len(self.content_ends), len(self.name_ends))
        if content_valid is not None:
            self.content_valid, self.content_bit = content_valid, content_bit
            _has_room(8 * len(self.content_valid), content_bit + len(self.content_ends) - 1)
        self.has_headers = True

    def write(self, out: object, position: cython.Py_ssize_t, row: cython.Py_ssize_t, rows_max: cython.int) -> int:
        """
        Write rows, starting at `row`, as the records of one batch: as many as fit in `out`, but at most `rows_max`.

        Return the number of rows written, and set the attribute `position` to the end of the last record.  The first
        row's timestamp is the base timestamp.  Raise ValueError for a row or position out of range, and
        MalformedRecords for invalid columns.
        """
        self.out = out
        if row < 0 or row >= self.places or position < 0 or position > len(self.out):
            raise ValueError(
                f"row {row} is not one of {self.places}, or byte {position} is outside of {len(self.out)} bytes"
            )
        first: cython.Py_ssize_t = self.order[row] if self.has_order else row
        if first < 0 or first >= self.rows:
            raise ValueError(f"row {first} is not one of {self.rows}")
        self.position = position
        self.timestamp_max = self.timestamps[first]
        self.problem = False
        self.bytes_wanted = 0
        count: cython.int = rows_max if rows_max < self.places - row else cython.cast(cython.int, self.places - row)
        written: cython.int
        with cython.nogil:
            written = self.write_all(row, count)
        if self.problem:
            raise MalformedRecords(
                f"row {row + written} has a timestamp out of range, or column offsets outside of the data"
            )
        return written

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def write_all(self, first: cython.Py_ssize_t, count: cython.int) -> cython.int:
        index: cython.int
        row: cython.Py_ssize_t
        size: cython.Py_ssize_t
        whole: cython.Py_ssize_t
        base: cython.longlong = self.timestamps[self.order[first] if self.has_order else first]
        for index in range(count):
            row = self.order[first + index] if self.has_order else first + index
            if row < 0 or row >= self.rows:
                self.problem = True
                return index
            if self.timestamps[row] > MILLISECONDS_MAX or self.timestamps[row] < -MILLISECONDS_MAX:
                self.problem = True
                return index
            size = self.record_size(row, index, self.timestamps[row] - base)
            if size < 0:
                self.problem = True
                return index
            whole = size + _varint_size(size)
            if whole > len(self.out) - self.position or size > 0x7FFFFFFF:
                self.bytes_wanted = whole
                return index
            if self.timestamps[row] > self.timestamp_max:
                self.timestamp_max = self.timestamps[row]
            self.put_record(row, index, self.timestamps[row] - base, size)
        return count

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def record_size(self, row: cython.Py_ssize_t, index: cython.int, delta: cython.longlong) -> cython.Py_ssize_t:
        """
        Return the size of a record without its length field, or -1 if an offset is out of range.

        `put_record` relies on this check.
        """
        size: cython.Py_ssize_t = 1 + _varint_size(delta) + _varint_size(index)
        length: cython.Py_ssize_t
        entry: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        length = -1
        if self.has_keys and _is_valid(self.key_valid, self.key_bit, row):
            if self.key_ends[row] < 0 or self.key_ends[row + 1] > len(self.key_data):
                return -1
            length = self.key_ends[row + 1] - self.key_ends[row]
            if length < 0:
                return -1
            size += length
        size += _varint_size(length)
        length = -1
        if self.has_values and _is_valid(self.value_valid, self.value_bit, row):
            if self.value_ends[row] < 0 or self.value_ends[row + 1] > len(self.value_data):
                return -1
            length = self.value_ends[row + 1] - self.value_ends[row]
            if length < 0:
                return -1
            size += length
        size += _varint_size(length)
        if not self.has_headers or not _is_valid(self.header_valid, self.header_bit, row):
            return size + 1
        entry = self.header_ends[row]
        stop = self.header_ends[row + 1]
        if entry < 0 or stop < entry or stop > len(self.name_ends) - 1:
            return -1
        size += _varint_size(stop - entry)
        while entry < stop:
            if self.name_ends[entry] < 0 or self.name_ends[entry + 1] > len(self.name_data):
                return -1
            length = self.name_ends[entry + 1] - self.name_ends[entry]
            if length < 0:
                return -1
            size += _varint_size(length) + length
            length = -1
            if _is_valid(self.content_valid, self.content_bit, entry):
                if self.content_ends[entry] < 0 or self.content_ends[entry + 1] > len(self.content_data):
                    return -1
                length = self.content_ends[entry + 1] - self.content_ends[entry]
                if length < 0:
                    return -1
                size += length
            size += _varint_size(length)
            entry += 1
        return size

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put_record(
        self, row: cython.Py_ssize_t, index: cython.int, delta: cython.longlong, size: cython.Py_ssize_t
    ) -> cython.void:
        entry: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        self.put_varint(size)
        self.out[self.position] = 0
        self.position += 1
        self.put_varint(delta)
        self.put_varint(index)
        if self.has_keys and _is_valid(self.key_valid, self.key_bit, row):
            self.put_bytes(self.key_data, self.key_ends[row], self.key_ends[row + 1])
        else:
            self.put_varint(-1)
        if self.has_values and _is_valid(self.value_valid, self.value_bit, row):
            self.put_bytes(self.value_data, self.value_ends[row], self.value_ends[row + 1])
        else:
            self.put_varint(-1)
        if not self.has_headers or not _is_valid(self.header_valid, self.header_bit, row):
            self.put_varint(0)
            return
        entry = self.header_ends[row]
        stop = self.header_ends[row + 1]
        self.put_varint(stop - entry)
        while entry < stop:
            self.put_bytes(self.name_data, self.name_ends[entry], self.name_ends[entry + 1])
            if _is_valid(self.content_valid, self.content_bit, entry):
                self.put_bytes(self.content_data, self.content_ends[entry], self.content_ends[entry + 1])
            else:
                self.put_varint(-1)
            entry += 1

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def put_varint(self, number: cython.longlong) -> cython.void:
        self.position = _put_varint(self.out, self.position, number)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def put_bytes(
        self,
        data: cython.const[cython.uchar][::1],  # type: ignore[valid-type]
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> cython.void:
        self.put_varint(end - start)
        if cython.compiled:
            _copy(self.out, self.position, cython.address(data[0]), start, end - start)
        else:
            _copy(self.out, self.position, data, start, end - start)
        self.position += end - start


# Tuples → records


def encode_records(
    records: object,
    base_timestamp: cython.longlong,
    reserved: cython.Py_ssize_t,
    first_delta: cython.Py_ssize_t = 0,
) -> bytearray:
    """
    Return `reserved` zero bytes, followed by records with the offset deltas `first_delta` and so on.

    `records` is a sequence of tuples that begin with key, value, headers and timestamp in milliseconds.  Bytes of names
    that are not UTF-8 are surrogates, as "surrogateescape" decodes them.  Raise ValueError if a timestamp is too far
    from `base_timestamp` for 64 bits.
    """
    # No other thread can change the records between the two loops, because the GIL is kept.
    count: cython.Py_ssize_t = len(records)  # type: ignore[arg-type]
    sizes: cython.longlong[::1] = array("q", bytes(8 * count))
    index: cython.Py_ssize_t
    size: cython.Py_ssize_t
    position: cython.Py_ssize_t = reserved
    for index in range(count):
        record = records[index]  # type: ignore[index]
        size = 1 + _varint_size(_delta(record[3], base_timestamp)) + _varint_size(first_delta + index)
        size += _content_size(record[0]) + _content_size(record[1]) + _varint_size(len(record[2]))
        for name, content in record[2]:
            size += _content_size(_name_bytes(name)) + _content_size(content)
        sizes[index] = size
        position += size + _varint_size(size)
    encoded = bytearray(position)
    out: cython.uchar[::1] = encoded
    position = reserved
    for index in range(count):
        record = records[index]  # type: ignore[index]
        position = _put_varint(out, position, sizes[index]) + 1  # attributes: none are defined
        position = _put_varint(out, position, _delta(record[3], base_timestamp))
        position = _put_varint(out, position, first_delta + index)
        position = _put_content(out, position, record[0])
        position = _put_content(out, position, record[1])
        position = _put_varint(out, position, len(record[2]))
        for name, content in record[2]:
            position = _put_content(out, position, _name_bytes(name))
            position = _put_content(out, position, content)
    return encoded


@cython.cfunc
@cython.inline
def _name_bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


@cython.cfunc
def _delta(timestamp: cython.longlong, base: cython.longlong) -> cython.longlong:
    if timestamp > INT64_MAX + base if base < 0 else timestamp < base + INT64_MIN:
        raise ValueError(f"timestamp {timestamp} is too far from {base}, the first one of the batch")
    return timestamp - base


@cython.cfunc
def _content_size(content: object) -> cython.Py_ssize_t:
    """Return the size of a key, a value or a header's part with its length; None has the length -1."""
    if content is None:
        return 1
    length: cython.Py_ssize_t = len(content)  # type: ignore[arg-type]
    return length + _varint_size(length)


@cython.cfunc
def _put_content(out: cython.uchar[::1], position: cython.Py_ssize_t, content: object) -> cython.Py_ssize_t:
    """Write what `_content_size` has measured, and return the position behind it."""
    if content is None:
        return _put_varint(out, position, -1)
    plain: bytes = content if isinstance(content, bytes) else bytes(content)  # type: ignore[call-overload]
    length: cython.Py_ssize_t = len(plain)
    position = _put_varint(out, position, length)
    if length > len(out) - position:
        raise ValueError("a record has changed while it was encoded")
    data: cython.pointer[cython.const[cython.uchar]] = plain
    _copy(out, position, data, 0, length)
    return position + length


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_varint(out: cython.uchar[::1], position: cython.Py_ssize_t, number: cython.longlong) -> cython.Py_ssize_t:
    zigzag: cython.ulonglong = _zigzag(number)
    while zigzag > 0x7F:
        out[position] = zigzag & 0x7F | 0x80
        position += 1
        zigzag >>= 7
    out[position] = zigzag
    return position + 1


# Records → records


def copied_records(
    block: object,
    names: tuple[bytes, ...],
    numbers: list[tuple[int, ...]],
    reserved: cython.Py_ssize_t,
    *,
    deltas: list[int] | None = None,
    name: bytes = b"",
    values: list[int] | None = None,
) -> bytearray:
    """
    Return `reserved` zero bytes, followed by copies of the records of a block, with the offset deltas 0, 1, 2 and so
    on.

    Headers with the names in `names` are left out.  For each number in `numbers[i]`, record `i` gets a header behind
    the others, with the digits of the number: the first one has the first of `names`, and so on.  Each header with the
    name `name` gets the digits of `values[i]` in its place, if `values` are given.  The timestamp deltas stay unless
    `deltas` are given.  Raise MalformedRecords.
    """
    walk: Walk = Walk(block, 0, len(block), 0)  # type: ignore[arg-type]
    count: cython.Py_ssize_t = len(numbers)
    if (values is not None and len(values) != count) or (deltas is not None and len(deltas) != count):
        raise ValueError(f"values or timestamp deltas are not given for {count} records")
    added_max: cython.Py_ssize_t = len(names)
    if values is not None:
        names = (*names, name)
    index: cython.Py_ssize_t
    grown: cython.Py_ssize_t = RECORD_GROWTH_MAX + sum([len(it) + HEADER_GROWTH_MAX for it in names])
    size: cython.Py_ssize_t = reserved + len(block) + grown * count  # type: ignore[arg-type]
    for index in range(count):
        if not walk.step():
            raise MalformedRecords(f"record {index}: {PROBLEMS[walk.problem]}")
        if len(numbers[index]) > added_max:
            raise ValueError(f"record {index} has {len(numbers[index])} numbers for {added_max} headers")
        if values is not None:
            size += HEADER_GROWTH_MAX * walk.header_count
    if walk.position != walk.end:
        raise MalformedRecords(f"record {count}: {PROBLEMS[REST_PROBLEM]}")
    copies = bytearray(size)
    out: cython.uchar[::1] = copies
    place: cython.Py_ssize_t = reserved
    delta: cython.longlong
    value: cython.longlong = 0
    in_place: cython.Py_ssize_t = -1 if values is None else added_max
    walk.position = 0
    for index in range(count):
        walk.step()
        delta = walk.timestamp if deltas is None else deltas[index]
        if values is not None:
            value = values[index]
        place = _copy_record(walk, index, delta, names, in_place, value, numbers[index], out, place)
    return copies[:place]


@cython.cfunc
def _copy_record(
    walk: Walk,
    index: cython.Py_ssize_t,
    delta: cython.longlong,
    names: tuple[bytes, ...],
    in_place: cython.Py_ssize_t,
    value: cython.longlong,
    numbers: tuple[int, ...],
    out: cython.uchar[::1],
    place: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """
    Write a copy of the current record, of which `walk.step` has checked all lengths; return where it ends.  `in_place`
    is the index of the name whose headers get `value`, or negative.
    """
    # The headers are written first, far enough behind what comes before them, because their number is not known yet.
    contents: cython.Py_ssize_t = walk.value + (walk.value_length if walk.value_length > 0 else 0) - walk.key_start
    headers: cython.Py_ssize_t = place + contents + RECORD_GROWTH_MAX
    end: cython.Py_ssize_t = headers
    count: cython.Py_ssize_t = 0
    position: cython.Py_ssize_t = walk.headers
    begin: cython.Py_ssize_t
    start: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    kind: cython.Py_ssize_t
    name: bytes
    for _ in range(walk.header_count):
        begin = position
        start = _stop(walk.data, position, walk.end, 5)
        stop = start + _number(walk.data, position, start)
        position = _stop(walk.data, stop, walk.end, 5)
        position += max(_number(walk.data, stop, position), 0)
        kind = _name_index(walk.data, start, stop, names)
        if kind >= 0 and kind != in_place:
            continue
        count += 1
        if kind < 0:
            _copy(out, end, walk.data, begin, position - begin)
            end += position - begin
        else:
            _copy(out, end, walk.data, begin, stop - begin)
            end = _put_digits(out, end + stop - begin, value)
    for kind in range(len(numbers)):
        name = names[kind]
        end = _put_content(out, end, name)
        end = _put_digits(out, end, numbers[kind])
        count += 1
    size: cython.Py_ssize_t = 1 + _varint_size(delta) + _varint_size(index) + contents + _varint_size(count)
    place = _put_varint(out, place, size + end - headers)
    out[place] = 0  # attributes
    place = _put_varint(out, place + 1, delta)
    place = _put_varint(out, place, index)
    _copy(out, place, walk.data, walk.key_start, contents)
    place = _put_varint(out, place + contents, count)
    for position in range(headers, end):
        out[place] = out[position]
        place += 1
    return place


def renumbered_records(
    block: object,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    base_timestamp: cython.longlong,
    names: tuple[bytes, ...],
    values: object,
    appended: list[int],
    reserved: cython.Py_ssize_t,
) -> tuple[bytearray, int]:
    """
    Return `reserved` zero bytes, followed by copies of the records of block[position:end], with the offset deltas 0, 1,
    2 and so on; and the largest timestamp, in milliseconds.

    A header of record `i` with a name in `names` gets the first of these names, and the digits of `values[i]`, an array
    of int64, in its place.  `appended` has the indexes of records, ascending, that get such a header as their last one
    if they have none.  Raise MalformedRecords, or ValueError if a record has two such headers.
    """
    walk: Walk = Walk(block, position, end, base_timestamp)
    numbers: cython.const[cython.longlong][::1] = values  # type: ignore[valid-type]
    count: cython.Py_ssize_t = len(numbers)
    if count > (end - position) // RECORD_BYTES_MIN:
        raise MalformedRecords(f"{end - position} bytes are too few for {count} records")
    name: bytes = names[0]
    grown: cython.Py_ssize_t = RECORD_GROWTH_MAX + HEADER_GROWTH_MAX + len(name)
    copies = bytearray(reserved + (end - position) + grown * count)
    out: cython.uchar[::1] = copies
    place: cython.Py_ssize_t = reserved
    copied: cython.Py_ssize_t = position  # what comes before it has been copied
    timestamp_max: cython.longlong = INT64_MIN
    appended_count: cython.Py_ssize_t = 0
    index: cython.Py_ssize_t
    start: cython.Py_ssize_t
    header: cython.Py_ssize_t
    is_appended: cython.bint
    for index in range(count):
        start = walk.position
        if not walk.step():
            raise MalformedRecords(f"record {index}: {PROBLEMS[walk.problem]}")
        if walk.timestamp > timestamp_max:
            timestamp_max = walk.timestamp
        header = _only_header(walk, names)
        if header == TWO_HEADERS:
            raise ValueError(f"record {index} has two headers of {names}")
        is_appended = appended_count < len(appended) and appended[appended_count] == index
        appended_count += is_appended
        if header < 0 and not is_appended and walk.offset_delta == index:
            continue  # it is copied together with what follows
        _copy(out, place, walk.data, copied, start - copied)
        place += start - copied
        place = _put_renumbered(walk, start, index, header, is_appended, name, numbers[index], out, place)
        copied = walk.position
    if walk.position != end:
        raise MalformedRecords(f"record {count}: {PROBLEMS[REST_PROBLEM]}")
    _copy(out, place, walk.data, copied, end - copied)
    return copies[: place + end - copied], timestamp_max


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _only_header(walk: Walk, names: tuple[bytes, ...]) -> cython.Py_ssize_t:
    """
    Return where the header of the current record begins whose name is in `names`; NO_HEADER if there is none, or
    TWO_HEADERS.  `walk.step` has checked the lengths.
    """
    found: cython.Py_ssize_t = NO_HEADER
    position: cython.Py_ssize_t = walk.headers
    begin: cython.Py_ssize_t
    start: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    left: cython.Py_ssize_t = walk.header_count
    while left > 0:
        begin = position
        start = _stop(walk.data, position, walk.end, 5)
        stop = start + _number(walk.data, position, start)
        position = _stop(walk.data, stop, walk.end, 5)
        position += max(_number(walk.data, stop, position), 0)
        if _name_index(walk.data, start, stop, names) >= 0:
            if found != NO_HEADER:
                return TWO_HEADERS
            found = begin
        left -= 1
    return found


@cython.cfunc
def _put_renumbered(
    walk: Walk,
    begin: cython.Py_ssize_t,
    index: cython.Py_ssize_t,
    header: cython.Py_ssize_t,
    is_appended: cython.bint,
    name: bytes,
    number: cython.longlong,
    out: cython.uchar[::1],
    place: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """
    Write a copy of the current record, which begins at `begin`, with the header `name` and the digits of `number`
    instead of the header that begins at `header`, if it is not negative, and otherwise, if it `is_appended`, as the
    last one.  Return where the copy ends.  `walk.step` has checked all lengths.
    """
    attributes: cython.Py_ssize_t = _stop(walk.data, begin, walk.end, 5)
    offset: cython.Py_ssize_t = _stop(walk.data, attributes + 1, walk.end, 10)
    contents: cython.Py_ssize_t = walk.value + (walk.value_length if walk.value_length > 0 else 0) - walk.key_start
    first: cython.Py_ssize_t = walk.headers  # and those that follow, which are copied
    first_end: cython.Py_ssize_t = walk.position
    rest: cython.Py_ssize_t = walk.position
    count: cython.Py_ssize_t = walk.header_count
    added: cython.Py_ssize_t = 0
    if header >= 0:
        first_end = header
        rest = _stop(walk.data, header, walk.end, 5)
        header = rest + _number(walk.data, header, rest)
        rest = _stop(walk.data, header, walk.end, 5)
        rest += max(_number(walk.data, header, rest), 0)
        is_appended = True
    elif is_appended:
        count += 1
    if is_appended:
        added = _content_size(name) + 1 + _digit_count(number)
    size: cython.Py_ssize_t = offset - attributes + _varint_size(index) + contents + _varint_size(count)
    size += first_end - first + added + walk.position - rest
    place = _put_varint(out, place, size)
    _copy(out, place, walk.data, attributes, offset - attributes)
    place = _put_varint(out, place + offset - attributes, index)
    _copy(out, place, walk.data, walk.key_start, contents)
    place = _put_varint(out, place + contents, count)
    _copy(out, place, walk.data, first, first_end - first)
    place += first_end - first
    if is_appended:
        place = _put_digits(out, _put_content(out, place, name), number)
    _copy(out, place, walk.data, rest, walk.position - rest)
    return place + walk.position - rest


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _digit_count(number: cython.longlong) -> cython.Py_ssize_t:
    """Return how many bytes the decimal digits of a number take, with its sign; it is not the least number."""
    left: cython.longlong = number if number >= 0 else -number
    size: cython.Py_ssize_t = 1 if number >= 0 else 2
    while left >= 10:
        left = left // 10
        size += 1
    return size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_digits(out: cython.uchar[::1], place: cython.Py_ssize_t, number: cython.longlong) -> cython.Py_ssize_t:
    """Write a header's value: the digits of a number, which is not the least one; return where it ends."""
    left: cython.longlong = number if number >= 0 else -number
    size: cython.Py_ssize_t = _digit_count(number)
    place = _put_varint(out, place, size)
    if number < 0:
        out[place] = 45
    index: cython.Py_ssize_t = place + size
    while True:
        index -= 1
        out[index] = 48 + left % 10
        left = left // 10
        if left == 0:
            return place + size


@cython.cfunc
@cython.exceptval(check=False)
def _name_index(
    data: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    names: tuple[bytes, ...],
) -> cython.Py_ssize_t:
    """Return the place of a header's name in `names`, or -1."""
    index: cython.Py_ssize_t
    name: bytes
    for index in range(len(names)):
        name = names[index]
        if len(name) == stop - start and _begins_with(data, start, stop, name):
            return index
    return -1


# Rows → partitions

MURMUR2_SEED = cython.declare(cython.ulonglong, 0x9747B28C)
MURMUR2_FACTOR = cython.declare(cython.ulonglong, 0x5BD1E995)
LOW_32_BITS = cython.declare(cython.ulonglong, 0xFFFFFFFF)


def murmur2(key: object) -> int:
    """Return the hash by which Java's producer chooses the partition of a key: murmur2, without the sign bit."""
    view: cython.const[cython.uchar][::1] = key  # type: ignore[valid-type]
    return _murmur2(view, 0, len(view))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _murmur2(
    data: cython.const[cython.uchar][::1],  # type: ignore[valid-type]
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.ulonglong:
    """Return the hash of data[position:end].  Factors have 32 bits, so that products fit in 64 bits."""
    number: cython.ulonglong
    result: cython.ulonglong = MURMUR2_SEED ^ cython.cast(cython.ulonglong, end - position) & LOW_32_BITS
    while end - position >= 4:
        number = (
            cython.cast(cython.ulonglong, data[position])
            | cython.cast(cython.ulonglong, data[position + 1]) << 8
            | cython.cast(cython.ulonglong, data[position + 2]) << 16
            | cython.cast(cython.ulonglong, data[position + 3]) << 24
        )
        number = number * MURMUR2_FACTOR & LOW_32_BITS
        number ^= number >> 24
        number = number * MURMUR2_FACTOR & LOW_32_BITS
        result = (result * MURMUR2_FACTOR & LOW_32_BITS) ^ number
        position += 4
    if position < end:
        if end - position == 3:
            result ^= cython.cast(cython.ulonglong, data[position + 2]) << 16
        if end - position >= 2:
            result ^= cython.cast(cython.ulonglong, data[position + 1]) << 8
        result ^= data[position]
        result = result * MURMUR2_FACTOR & LOW_32_BITS
    result ^= result >> 13
    result = result * MURMUR2_FACTOR & LOW_32_BITS
    result ^= result >> 15
    return result & 0x7FFFFFFF


@cython.final
@cython.cclass
class RowRouter:
    """
    Chooses the partition of each row, and sorts the rows by partition.

    The rows of one call may belong to several topics.  The partitions of all these topics have consecutive numbers,
    here called *slots*: `counts` contains the number of partitions of each topic, and the first topic starts at slot 0.

    A row goes to the partition that it specifies, or else to the partition that its key's hash selects.  A row with
    neither a partition nor a key goes to the topic's sticky partition, which changes after `sticky_bytes` bytes of
    values.  `sticky` has two numbers for each topic, which are updated: its sticky partition, and the bytes that this
    partition has received.
    """

    rows: cython.Py_ssize_t
    counts: cython.const[cython.int][::1]  # type: ignore[valid-type]
    firsts: cython.int[::1]
    sticky: cython.longlong[::1]
    sticky_bytes: cython.longlong
    value_ends: cython.const[cython.int][::1]  # type: ignore[valid-type]
    has_topics: cython.bint
    topics: cython.const[cython.int][::1]  # type: ignore[valid-type]
    has_partitions: cython.bint
    partitions: cython.const[cython.longlong][::1]  # type: ignore[valid-type]
    partition_valid: cython.const[cython.uchar][::1]  # type: ignore[valid-type]
    partition_bit: cython.Py_ssize_t
    has_keys: cython.bint
    key_ends: cython.const[cython.int][::1]  # type: ignore[valid-type]
    key_data: cython.const[cython.uchar][::1]  # type: ignore[valid-type]
    key_valid: cython.const[cython.uchar][::1]  # type: ignore[valid-type]
    key_bit: cython.Py_ssize_t
    slots: cython.int[::1]
    starts: cython.int[::1]
    order: cython.int[::1]

    def __init__(
        self,
        rows: cython.Py_ssize_t,
        counts: object,
        sticky: object,
        sticky_bytes: cython.longlong,
        value_ends: object,
    ) -> None:
        """`value_ends` contains Arrow's offsets of the values, one more than there are rows."""
        self.rows = rows
        self.counts = counts
        self.sticky = sticky
        self.sticky_bytes = sticky_bytes
        self.value_ends = value_ends
        _has_room(len(self.sticky), 2 * len(self.counts))
        _has_room(len(self.value_ends), rows + 1)
        self.has_topics = self.has_partitions = self.has_keys = False
        self.partition_valid = self.key_valid = b""
        self.partition_bit = self.key_bit = -1
        slot_count: cython.Py_ssize_t = 0
        topic: cython.Py_ssize_t
        self.firsts = array("i", bytes(4 * len(self.counts)))
        for topic in range(len(self.counts)):
            if self.counts[topic] < 1 or slot_count + self.counts[topic] > 0x7FFFFFFE:
                raise ValueError(f"topic {topic} has {self.counts[topic]} partitions")
            if not 0 <= self.sticky[2 * topic] < self.counts[topic]:
                raise ValueError(f"{self.sticky[2 * topic]} is not a partition of topic {topic}")
            self.firsts[topic] = cython.cast(cython.int, slot_count)
            slot_count += self.counts[topic]
        self.starts = array("i", bytes(4 * (slot_count + 1)))

    def have_topics(self, topics: object) -> None:
        """Set the index of each row's topic in `counts`.  Without this call, all rows have the first topic."""
        self.topics = topics
        self.has_topics = _has_room(len(self.topics), self.rows)

    def have_partitions(self, partitions: object, valid: object, bit: cython.Py_ssize_t) -> None:
        self.partitions = partitions
        self.has_partitions = _has_room(len(self.partitions), self.rows)
        if valid is not None:
            self.partition_valid, self.partition_bit = valid, bit
            _has_room(8 * len(self.partition_valid), bit + self.rows)

    def have_keys(self, ends: object, data: object, valid: object, bit: cython.Py_ssize_t) -> None:
        self.key_ends, self.key_data = ends, data
        self.has_keys = _has_room(len(self.key_ends), self.rows + 1)
        if valid is not None:
            self.key_valid, self.key_bit = valid, bit
            _has_room(8 * len(self.key_valid), bit + self.rows)

    def route(self) -> tuple[int, array[int], array[int]]:
        """
        Return (number of rows routed, starts, order).

        The rows of slot s are order[starts[s]:starts[s + 1]], in their original order.  If the first number is less
        than the number of rows, then the row with that number specifies a partition that its topic does not have, and
        the arrays are meaningless.  Raise MalformedRecords for invalid columns.
        """
        order = array("i", bytes(4 * self.rows))
        starts = array("i", bytes(4 * len(self.starts)))
        self.order = order
        self.starts = starts
        self.slots = array("i", bytes(4 * self.rows))
        routed: cython.Py_ssize_t
        with cython.nogil:
            routed = self.choose_all()
            if routed == self.rows:
                self.sort_rows()
        if routed < 0:
            raise MalformedRecords(f"row {-1 - routed} has an unknown topic, or column offsets outside of the data")
        return routed, starts, order

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def choose_all(self) -> cython.Py_ssize_t:
        """Set the slot of every row, and count the rows of slot s in starts[s + 1]."""
        row: cython.Py_ssize_t
        topic: cython.Py_ssize_t = 0
        partition: cython.longlong
        size: cython.longlong
        slot: cython.Py_ssize_t
        for row in range(self.rows):
            if self.has_topics:
                topic = self.topics[row]
                if topic < 0 or topic >= len(self.counts):
                    return -1 - row
            if self.has_partitions and _is_valid(self.partition_valid, self.partition_bit, row):
                partition = self.partitions[row]
                if partition < 0 or partition >= self.counts[topic]:
                    return row
            elif self.has_keys and _is_valid(self.key_valid, self.key_bit, row):
                if (
                    self.key_ends[row] < 0
                    or self.key_ends[row] > self.key_ends[row + 1]
                    or self.key_ends[row + 1] > len(self.key_data)
                ):
                    return -1 - row
                partition = _murmur2(self.key_data, self.key_ends[row], self.key_ends[row + 1]) % self.counts[topic]
            else:
                if self.sticky[2 * topic + 1] >= self.sticky_bytes:
                    self.sticky[2 * topic] = (self.sticky[2 * topic] + 1) % self.counts[topic]
                    self.sticky[2 * topic + 1] = 0
                partition = self.sticky[2 * topic]
                size = self.value_ends[row + 1] - self.value_ends[row]
                self.sticky[2 * topic + 1] += size + 7
            slot = self.firsts[topic] + cython.cast(cython.Py_ssize_t, partition)
            self.slots[row] = cython.cast(cython.int, slot)
            self.starts[slot + 1] += 1
        return self.rows

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def sort_rows(self) -> cython.void:
        """Sort by counting: fill `order`, and turn the counts in `starts` into positions."""
        slot: cython.Py_ssize_t
        row: cython.Py_ssize_t
        for slot in range(len(self.starts) - 1):
            self.starts[slot + 1] += self.starts[slot]
        for row in range(self.rows):
            slot = self.slots[row]
            self.order[self.starts[slot]] = cython.cast(cython.int, row)
            self.starts[slot] += 1
        for slot in range(len(self.starts) - 1, 0, -1):  # each start is now the next slot's start
            self.starts[slot] = self.starts[slot - 1]
        self.starts[0] = 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_valid(
    valid: cython.const[cython.uchar][::1],  # type: ignore[valid-type]
    bit: cython.Py_ssize_t,
    row: cython.Py_ssize_t,
) -> cython.bint:
    if bit < 0:
        return True
    return valid[(bit + row) >> 3] >> ((bit + row) & 7) & 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _zigzag(number: cython.longlong) -> cython.ulonglong:
    return cython.cast(cython.ulonglong, number) << 1 ^ cython.cast(cython.ulonglong, number >> 63)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _varint_size(number: cython.longlong) -> cython.int:
    zigzag: cython.ulonglong = _zigzag(number)
    size: cython.int = 1
    while zigzag > 0x7F:
        zigzag >>= 7
        size += 1
    return size
