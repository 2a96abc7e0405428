"""Scanning records with both implementations, on valid and malformed blocks."""

import random
import re
import struct
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.batches.record_bytes import append_record, append_varint
from tests.unit.batches.record_strategies import numbered, record_lists
from tidemill.batches import native
from tidemill.batches import scan as plain
from tidemill.batches.batch import HEADER_BYTES, read_header
from tidemill.batches.builder import build_batch
from tidemill.batches.checksum import crc32c
from tidemill.batches.records import Record, read_records
from tidemill.timer.due_row import UNPLACED, DueRow, unpack_rows

OFFSET_MAX = (1 << 63) - 1


def block_of(records):
    batch = build_batch(records)
    return bytes(batch[HEADER_BYTES:]), read_header(batch).base_timestamp


@settings(max_examples=40)
@given(records=record_lists)
def test_a_valid_block_is_scanned_to_its_end(scan, records):
    """
    A valid block is scanned to its end; the result contains the number of records and the bounds of their timestamps.
    """
    block, base = block_of(records)

    found = scan.check_records(block, 0, len(block), len(records), base)

    stamps = [record.timestamp for record in records]
    assert found == (0, len(records), min(stamps), max(stamps))


@settings(max_examples=40)
@given(records=record_lists, noise=st.binary(max_size=20), first=st.integers(0, 30), last=st.integers(0, 30))
def test_the_records_of_a_range_are_decoded(scan, records, noise, first, last):
    """Those outside of the range of offsets, and those beyond the limit, are left out."""
    block, base = block_of(records)
    window = (noise + block + noise, len(noise), len(noise) + len(block), len(records), 5, base)
    wanted = [tuple(it) for it in numbered(records, 5) if first <= it.offset <= last]

    assert wanted == scan.decode_records(*window, first, last, 99)
    assert wanted[:2] == scan.decode_records(*window, first, last, 2)


def test_records_with_too_many_headers_are_left_out(scan):
    """Records end before the one with which they have more headers than allowed; the first one alone is refused."""
    block, base = block_of([Record(None, None, [("", None)] * count, 5) for count in (2, 0, 3, 1)])
    window = (block, 0, len(block), 4, 0, base)

    for headers_max, count in ((6, 4), (5, 3), (4, 2), (2, 2)):
        assert count == len(scan.decode_records(*window, 0, 3, 4, headers_max)), headers_max
    with pytest.raises(scan.TooManyHeaders, match="record 2: it has 3 headers, more than 2"):
        scan.decode_records(*window, 2, 3, 4, 2)
    assert [1, 0, 1, 1] == [len(it[2]) for it in scan.decode_records(*window, 0, 3, 4, 3, 1)]


@settings(max_examples=40)
@given(records=record_lists, noise=st.binary(max_size=20), first=st.integers(0, 30), limit=st.integers(1, 5))
@pytest.mark.parametrize("is_last", [False, True])
def test_places_are_those_of_the_decoded_records(scan, records, noise, first, limit, is_last):
    """A walk in parts finds each record, its key, and the first or last header of a name."""
    records = [it._replace(headers=[*it.headers, ("b", b"7"), ("name", it.value), ("a", it.key)]) for it in records]
    records[0] = records[0]._replace(headers=[("name", b"1"), ("name", b"22")])
    records[-1] = records[-1]._replace(headers=[])
    block, base = block_of(records)
    data, position, end, left = noise + block + noise, len(noise), len(noise) + len(block), len(records)

    def content(start, length):
        return None if length == -1 else data[start : start + length] if length >= 0 else "none"

    found = []
    while left:
        places, position, left = scan.record_places(data, position, end, left, 5, base, first, limit, b"name", is_last)
        assert len(places) == limit or not left
        found += [(it[0], it[1], content(*it[2:4]), content(*it[4:])) for it in places]

    named = [[value for name, value in it.headers if name == "name"] for it in records]
    expected = [
        (it.offset, it.timestamp, it.key, named[at][-1 if is_last else 0] if named[at] else "none")
        for at, it in enumerate(numbered(records, 5))
        if it.offset >= first
    ]
    assert position == end
    assert expected == found


@settings(max_examples=40)
@given(records=record_lists, timestamp=st.integers(-1, 1 << 42))
def test_the_first_record_at_or_after_a_timestamp_is_found(scan, records, timestamp):
    """The search finds the first matching record by offset, whatever the order of the timestamps."""
    block, base = block_of(records)

    found = scan.first_at_or_after(block, 0, len(block), len(records), base, timestamp)

    late = [(index, record.timestamp) for index, record in enumerate(records) if record.timestamp >= timestamp]
    assert found == (late[0] if late else None)


def spans_of(block):
    """Return where each record lies, found by its length only."""
    spans, at = [], 0
    while at < len(block):
        end = at + 1
        while block[end - 1] > 0x7F:
            end += 1
        length = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(block[at:end])) >> 1
        spans.append((at, end + length))
        at = end + length
    return spans


@settings(max_examples=40)
@given(records=record_lists, noise=st.binary(max_size=20))
def test_the_starts_of_records_are_found(scan, records, noise):
    """There is one for each record, and at last the end of the block, wherever the block lies."""
    block, _ = block_of(records)
    starts = [len(noise) + start for start, _ in spans_of(block)]

    assert [*starts, len(noise + block)] == [*scan.record_starts(noise + block + noise, len(noise), len(noise + block))]


names = st.sampled_from(["due", "due-at", "du", "other", "", "düe"])
numbers = st.integers(0, 10**19).map(lambda it: b"%d" % it)
numeric = numbers | numbers | st.sampled_from([None, b"", b"-1", b" 1", b"1 ", b"007", b"9" * 18, b"/", b":"])
numbered_headers = st.lists(st.tuples(names, numeric), max_size=3).map(tuple)


def number_in(headers, otherwise):
    """Return the number that the headers of a record say by the documentation; None if a caller must look closer."""
    own = [(name, value) for name, value in headers if name.startswith("due")]
    if not own:
        return otherwise
    if len(own) > 1 or own[0][0] != "due" or not re.fullmatch(rb"[0-9]{1,18}", own[0][1] or b""):
        return None
    return int(own[0][1])


@settings(max_examples=300)
@given(headers=st.lists(numbered_headers, min_size=1, max_size=4), otherwise=st.integers(-1, OFFSET_MAX))
def test_numbers_in_headers_are_read(scan, headers, otherwise):
    """What is no plain number, or may mean something else, is left to the caller, for all records of the block."""
    block, _ = block_of([Record(b"key", b"value", it) for it in headers])
    wanted = [number_in(it, otherwise) for it in headers]

    found = scan.header_numbers(block, 0, len(block), len(headers), b"due", b"due", otherwise)

    assert found == (None if None in wanted else wanted)


@settings(max_examples=100)
@given(headers=st.lists(numbered_headers, min_size=1, max_size=4), noise=st.binary(max_size=20))
def test_headers_are_found(scan, headers, noise):
    """Each place of a value is where the value is, wherever the block lies; other headers are left out."""
    block, _ = block_of([Record(b"due", b"due", it) for it in headers])
    data, window = noise + block + noise, (len(noise), len(noise) + len(block), len(headers))
    names = [b"due-at", b"due"]

    found = scan.found_headers(data, *window, (*names,), b"du", 3)

    wanted = [
        (index, names.index(name.encode()), value)
        for index, it in enumerate(headers)
        for name, value in it
        if name.encode() in names
    ]
    places = [found[at : at + 4] for at in range(0, len(found), 4)]
    assert wanted == [
        (index, name, None if length == -1 else data[start : start + length]) for index, name, start, length in places
    ]


def test_more_headers_are_found_than_are_collected_together(scan):
    """They come in parts of 256."""
    for count in (255, 256, 257, 1_000):
        block, _ = block_of([Record(None, None, (("due", b"1"),))] * count)

        found = scan.found_headers(block, 0, len(block), count, (b"due",), b"due", 1)

        assert [*range(count)] == [*found[::4]]


def test_a_record_with_too_many_headers_is_named(scan):
    """Their names do not matter."""
    block, _ = block_of([Record(None, None, [("", None)] * count) for count in (1, 3)])

    assert [] == [*scan.found_headers(block, 0, len(block), 2, (b"due",), b"due", 3)]
    with pytest.raises(scan.TooManyHeaders, match="record 1: it has 3 headers, more than 2"):
        scan.found_headers(block, 0, len(block), 2, (b"due",), b"due", 2)


@settings(max_examples=40)
@given(records=record_lists, noise=st.binary(max_size=20))
def test_the_largest_record_is_measured(scan, records, noise):
    block, _ = block_of(records)

    found = scan.largest_record(noise + block + noise, len(noise), len(noise) + len(block))

    assert max(end - start for start, end in spans_of(block)) == found
    assert 0 == scan.largest_record(noise, 0, 0)


@settings(max_examples=40)
@given(records=record_lists, noise=st.binary(max_size=20))
def test_headers_are_counted(scan, records, noise):
    block, _ = block_of(records)

    counts = scan.header_counts(noise + block + noise, len(noise), len(noise + block))

    assert [len(it.headers) for it in records] == [*counts]


@settings(max_examples=100)
@given(headers=st.lists(numbered_headers, min_size=1, max_size=4))
def test_values_of_headers_are_read(scan, headers):
    """Null is empty, the last value counts, and headers with other names are only counted."""
    block, _ = block_of([Record(b"key", b"value", it) for it in headers])
    wanted = []
    for it in headers:
        last = {name: value or b"" for name, value in it}
        wanted.append((sum(name.startswith("du") for name, _ in it), [last.get("due"), last.get("du")]))

    assert wanted == scan.header_values(block, 0, len(block), len(headers), (b"due", b"du"), b"du")


@settings(max_examples=40)
@given(
    records=record_lists,
    first_arrival=st.integers(0, 1 << 62),
    first_offset=st.integers(0, (1 << 64) - 100),
    position=st.none() | st.integers(0, 1 << 31),
)
def test_rows_of_the_index_are_packed(scan, records, first_arrival, first_offset, position):
    """They say where the records lie in the file, if that is known, and have the CRCs of records and keys."""
    block, base = block_of(records)
    dues = [7 * number for number, _ in enumerate(records)]
    arrivals = [first_arrival + 3 * number for number, _ in enumerate(records)]
    wanted = []
    for number, (found, (start, end)) in enumerate(zip(records, spans_of(block), strict=True)):
        place = (UNPLACED, 0, 0) if position is None else (position + start, end - start, crc32c(block[start:end]))
        hashed = 0 if found.key is None else crc32c(found.key)
        row = DueRow(dues[number], arrivals[number], first_offset + number, *place, hashed, found.timestamp)
        wanted.append(row)

    where = -1 if position is None else position
    packed = scan.index_rows(block, 0, len(block), base, dues, arrivals, first_offset, where, crc32c)

    assert wanted == [*unpack_rows(packed)]


@given(headers=st.lists(st.tuples(st.binary(max_size=8), st.none() | st.binary(max_size=8)), max_size=8))
def test_names_that_are_no_text_can_be_kept(scan, headers):
    """They are replaced otherwise, as clients do that show them."""
    block = bytearray()
    append_record(block, 0, 0, b"k", b"v", headers)
    window = bytes(block), 0, len(block), 1, 0, 0, 0, 9, 9

    kept = scan.decode_records(*window, name_errors="surrogateescape")
    ((_, _, shown, _, _),) = scan.decode_records(*window)

    assert scan.encode_records(kept, 0, 0) == block
    assert [name.decode(errors="replace") for name, _ in headers] == [name for name, _ in shown]


def test_rows_need_an_arrival_for_each_due_time(scan):
    block, base = block_of([Record(b"key", b"value")])
    with pytest.raises(ValueError, match="1 due times for 0 arrivals"):
        scan.index_rows(block, 0, len(block), base, [1], [], 0, 0, crc32c)


@settings(max_examples=100)
@given(records=record_lists, added=st.sampled_from([(), (b"own",), (b"own", b"new")]), first=st.integers(-1, 10**18))
def test_records_are_copied_with_other_headers(scan, records, added, first):
    """Headers that are replaced, left out and added can be anywhere; all others stay, in order."""
    named = [it._replace(headers=(*it.headers, ("due", b"1"), ("own", None), *it.headers[:1])) for it in records]
    named[0] = records[0]
    block, _ = block_of(named)
    values = [first + number for number, _ in enumerate(named)]
    numbers = [(value - 1, first)[: len(added)] for value in values]

    copied = scan.copied_records(block, added, numbers, 3, deltas=[0] * len(named), name=b"due", values=values)

    wanted = []
    for it, value, new in zip(named, values, numbers, strict=True):
        headers = [(name, b"%d" % value if name == "due" else content) for name, content in it.headers]
        headers = [(name, content) for name, content in headers if name.encode() not in added]
        headers += [(name.decode(), b"%d" % number) for name, number in zip(added, new, strict=True)]
        wanted.append(it._replace(headers=tuple(headers), timestamp=0))
    assert scan.encode_records(wanted, 0, 3) == copied


@settings(max_examples=100)
@given(records=record_lists, shift=st.none() | st.integers(-(1 << 62), 1 << 62))
def test_records_are_copied_without_some_headers(scan, records, shift):
    """Names without a number are left out.  The timestamps stay, unless others are given."""
    named = [it._replace(headers=(*it.headers, ("own", None), *it.headers, ("new", b"1"))) for it in records]
    block, base = block_of(named)
    deltas = None if shift is None else [it.timestamp + shift for it in records]

    copied = scan.copied_records(block, (b"new", b"own"), [(at,) for at, _ in enumerate(named)], 3, deltas=deltas)

    wanted = []
    for at, it in enumerate(records):
        headers = [(name, content) for name, content in (*it.headers, *it.headers) if name not in ("new", "own")]
        stamped = it.timestamp if deltas is None else deltas[at]
        wanted.append(it._replace(headers=(*headers, ("new", b"%d" % at)), timestamp=stamped))
    assert scan.encode_records(wanted, 0 if deltas else base, 3) == copied


def test_a_copy_has_no_more_headers_than_names(scan):
    """There would be no room for them."""
    block, _ = block_of([Record(b"k", b"v")])

    with pytest.raises(ValueError, match="record 0 has 2 numbers for 1 headers"):
        scan.copied_records(block, (b"own",), [(1, 2)], 0, name=b"due", values=[1])
    with pytest.raises(ValueError, match="not given for 1 records"):
        scan.copied_records(block, (), [()], 0, deltas=[])
    with pytest.raises(scan.MalformedRecords, match="record 0: bytes follow"):
        scan.copied_records(block, (), [], 0)


@settings(max_examples=200)
@given(
    records=record_lists,
    noise=st.binary(max_size=20),
    own=st.lists(st.sampled_from([(), (("due", b"1"),), (("after", None),), (("after", b"x" * 70),)]), min_size=20),
    appended=st.sets(st.integers(0, 19)),
    first=st.integers(-1, 10**18),
)
def test_records_get_numbers_in_place_of_headers(scan, records, noise, own, appended, first):
    """Headers of either name become the first one in their place; those that are appended come last; others stay."""
    given_records, wanted = [], []
    for index, (it, its_own) in enumerate(zip(records, own, strict=False)):
        new = (("due", b"%d" % (first + index)),) if its_own else ()
        last = new or (("due", b"%d" % (first + index)),) if index in appended and not its_own else ()
        given_records.append(it._replace(headers=(*it.headers, *its_own, *it.headers)))
        wanted.append(it._replace(headers=(*it.headers, *new, *it.headers, *last)))
    block, base = block_of(given_records)
    data, window = noise + block + noise, (len(noise), len(noise) + len(block), base)
    values = array("q", [first + index for index in range(len(records))])

    found = scan.renumbered_records(data, *window, (b"due", b"after"), values, sorted(appended), 3)

    assert (scan.encode_records(wanted, base, 3), max(it.timestamp for it in records)) == found


def test_records_are_numbered_from_zero(scan):
    """Only a batch that was not checked has other offset deltas; what else a record has stays."""
    records = [Record(b"k", b"v", (("a", b"1"),), 5)] * 3
    block = bytes(scan.encode_records(records, 5, 0, 900))

    found, _ = scan.renumbered_records(block, 0, len(block), 5, (b"due",), array("q", [0] * 3), [], 0)

    assert scan.encode_records(records, 5, 0) == found


def test_a_record_with_two_headers_in_place_of_one_is_refused(scan):
    """There would be no room for more of them."""
    block, _ = block_of([Record(None, None, (("due", b"1"), ("after", b"1")))])

    with pytest.raises(ValueError, match="record 0 has two headers"):
        scan.renumbered_records(block, 0, len(block), 0, (b"due", b"after"), array("q", [1]), [], 0)


def test_a_block_of_other_records_is_not_renumbered(scan):
    """Nothing is written for more records than there can be, and no record is left out."""
    block, _ = block_of([Record(b"k", b"v")] * 2)

    for count, problem in ((3, "too few for 3 records"), (1, "record 1: bytes follow"), (0, "record 0: bytes follow")):
        with pytest.raises(scan.MalformedRecords, match=problem):
            scan.renumbered_records(block, 0, len(block), 0, (b"due",), array("q", [0] * count), [], 0)
    with pytest.raises(scan.MalformedRecords, match="record 1: bytes follow"):
        scan.found_headers(block, 0, len(block), 1, (b"due",), b"due", 9)


def test_malformed_records_have_no_numbers_and_no_rows(scan):
    """A record that is cut off is refused, and nothing beyond the block is read."""
    block, base = block_of([Record(b"key", b"value", (("due", b"1"),))])
    cut = block[:-1]
    with pytest.raises(scan.MalformedRecords, match="record 0"):
        scan.record_starts(cut, 0, len(cut))
    with pytest.raises(scan.MalformedRecords, match="record 0"):
        scan.header_counts(cut, 0, len(cut))
    with pytest.raises(scan.MalformedRecords, match="record 0"):
        scan.header_numbers(cut, 0, len(cut), 1, b"due", b"due", 0)
    with pytest.raises(scan.MalformedRecords, match="record 0"):
        scan.header_values(cut, 0, len(cut), 1, (b"due",), b"due")
    with pytest.raises(scan.MalformedRecords, match="record 1"):
        scan.index_rows(block, 0, len(block), base, [1, 2], [1, 2], 0, 0, crc32c)
    with pytest.raises(scan.MalformedRecords, match="record 0"):
        scan.copied_records(cut, (b"due",), [()], 0)
    with pytest.raises(scan.MalformedRecords, match="a record at 0"):
        scan.largest_record(cut, 0, len(cut))
    with pytest.raises(scan.MalformedRecords, match="record 0"):
        scan.found_headers(cut, 0, len(cut), 1, (b"due",), b"due", 9)
    with pytest.raises(scan.MalformedRecords, match="record 0"):
        scan.renumbered_records(cut, 0, len(cut), 0, (b"due",), array("q", [1]), [], 0)


def record(body: bytes) -> bytes:
    """Return `body` preceded by its length."""
    block = bytearray()
    append_varint(block, len(body))
    return bytes(block) + body


# The fields of a record: attributes, timestamp delta, offset delta, key, value, headers.
MALFORMED = {
    "no bytes": (b"", 1),
    "a length of nothing": (b"\x00", 1),
    "a negative length": (b"\x01", 1),
    "a length beyond the block": (b"\x7e\x00\x00\x00\x01\x01\x00", 1),
    "a length of six bytes": (b"\x8c\x80\x80\x80\x80\x00" + bytes(6), 1),
    "a length without an end": (b"\x80" * 20, 1),
    "no timestamp": (record(b"\x00"), 2),
    "a timestamp of eleven bytes": (record(b"\x00" + b"\x80" * 10 + b"\x00\x00\x01\x01\x00"), 2),
    "a timestamp of more than 64 bits": (record(b"\x00" + b"\xff" * 9 + b"\x02\x00\x01\x01\x00"), 2),
    "a timestamp out of range": (record(b"\x00" + b"\xfe" + b"\xff" * 8 + b"\x01\x00\x01\x01\x00"), 2),
    "no offset": (record(b"\x00\x00"), 3),
    "a negative offset": (record(b"\x00\x00\x01\x01\x01\x00"), 3),
    "an offset of another place": (record(b"\x00\x00\x02\x01\x01\x00"), 3),
    "an offset of 34 bits": (record(b"\x00\x00\xfe\xff\xff\xff\x3f\x01\x01\x00"), 3),
    "no key": (record(b"\x00\x00\x00"), 4),
    "a key of length −2": (record(b"\x00\x00\x00\x03\x01\x00"), 4),
    "a key beyond the record": (record(b"\x00\x00\x00\x08\x01\x00") + bytes(9), 4),
    "no value": (record(b"\x00\x00\x00\x01"), 5),
    "a value of length −2": (record(b"\x00\x00\x00\x01\x03\x00"), 5),
    "a value beyond the record": (record(b"\x00\x00\x00\x01\x08\x00") + bytes(9), 5),
    "no headers": (record(b"\x00\x00\x00\x01\x01"), 6),
    "a negative header count": (record(b"\x00\x00\x00\x01\x01\x01"), 6),
    "more headers than there is room for": (record(b"\x00\x00\x00\x01\x01\x04\x00\x01"), 6),
    "two billion headers": (record(b"\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f") + bytes(9), 6),
    "a header without a name": (record(b"\x00\x00\x00\x01\x01\x02\x01\x01"), 6),
    "a header's name beyond the record": (record(b"\x00\x00\x00\x01\x01\x02\x10\x01") + bytes(9), 6),
    "a header without a value": (record(b"\x00\x00\x00\x01\x01\x02\x02a"), 6),
    "a header's value of length −2": (record(b"\x00\x00\x00\x01\x01\x02\x00\x03"), 6),
    "a header's value beyond the record": (record(b"\x00\x00\x00\x01\x01\x02\x00\x10") + bytes(9), 6),
    "bytes behind the headers": (record(b"\x00\x00\x00\x01\x01\x00\x00"), 7),
    "bytes behind the last record": (record(b"\x00\x00\x00\x01\x01\x00") + b"\x00", 8),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_record_is_refused_with_its_problem(scan, case):
    """Each malformed record is refused with its own problem, including a timestamp delta that overflows."""
    block, problem = MALFORMED[case]

    found = scan.check_records(block, 0, len(block), 1, 1 << 62)

    assert plain.PROBLEMS[found[0]] == plain.PROBLEMS[problem]


@pytest.mark.parametrize(("position", "end"), [(-1, 4), (3, 2), (0, 11), (11, 11)])
def test_a_window_outside_the_buffer_is_refused(scan, position, end):
    """A window outside the buffer is refused before any byte is read."""
    with pytest.raises(ValueError, match="does not lie in"):
        scan.check_records(bytes(10), position, end, 1, 0)


def test_a_column_buffer_that_is_too_small_is_refused(scan):
    """A column buffer that is too small is refused before anything is written into it."""
    with pytest.raises(ValueError, match="slots"):
        scan.ColumnFill(9, 100, 0, 10).want_offsets(memoryview(bytearray(64)).cast("q"))
    with pytest.raises(ValueError, match="parts"):
        scan.ColumnFill(9, 1 << 31, 0, 10)


def columns_of(form, block, count, base_timestamp):
    """Return everything that an implementation of `scan` writes for a block, with its error message if it raises."""
    rows, size = max(len(block) // 7, 1), len(block)
    slots = {
        "offsets": bytearray(8 * rows),
        "timestamps": bytearray(8 * rows),
        "types": bytearray(4 * rows),
        "key": [bytearray(4 * rows + 4), bytearray(rows), bytearray(size)],
        "value": [bytearray(4 * rows + 4), bytearray(rows), bytearray(size)],
        "headers": [
            bytearray(4 * rows + 4),
            bytearray(rows),
            bytearray(4 * (size // 2) + 4),
            bytearray(size),
            bytearray(4 * (size // 2) + 4),
            bytearray(size // 16 + 1),
            bytearray(size),
        ],
    }

    def views(name, *forms):
        return [memoryview(slot).cast(kind) for slot, kind in zip(slots[name], forms, strict=True)]

    fill = form.ColumnFill(rows, size, 3, 200)
    fill.want_offsets(memoryview(slots["offsets"]).cast("q"))
    fill.want_timestamps(memoryview(slots["timestamps"]).cast("q"))
    fill.want_timestamp_types(memoryview(slots["types"]).cast("i"))
    fill.want_keys(*views("key", "i", "B", "B"))
    fill.want_values(*views("value", "i", "B", "B"))
    fill.want_headers(*views("headers", "i", "B", "i", "B", "i", "B", "B"))
    try:
        fill.add(block, 0, len(block), count, 1, base_timestamp)
        outcome = "done"
    except ValueError as error:
        outcome = str(error)
    return outcome, fill.rows, fill.key_nulls, fill.header_count, slots


def outcome_of(act, *arguments):
    try:
        found = act(*arguments)
    except ValueError as error:
        return str(error)
    return list(found) if found is not None else None


def headers_of(form, data, start, block, count):
    """Return the headers `a` of a block, with their values instead of their places, or an error message."""
    found = outcome_of(form.found_headers, data, start, start + len(block), count, (b"a",), b"a", 2)
    if isinstance(found, str):
        return found
    for at in range(0, len(found), 4):
        found[at + 2] = data[found[at + 2] : found[at + 2] + max(found[at + 3], 0)]
    return found


def renumbered(form, data, start, end, base, count):
    numbers = array("q", range(9, 9 + count))
    return outcome_of(form.renumbered_records, data, start, end, base, (b"due", b"a"), numbers, [1], 2)


def mutated(chance: random.Random, block: bytes) -> bytes:
    """Return `block` with a few bytes changed, inserted or removed, or truncated."""
    damaged = bytearray(block)
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(len(damaged) + 1)
        match chance.randrange(5):
            case 0:
                damaged[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                damaged[place : place + 1] = chance.choice([b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff"])
            case 2:
                damaged[place:place] = chance.randbytes(chance.randrange(1, 11))
            case 3:
                del damaged[place : place + chance.randrange(1, 5)]
            case 4:
                del damaged[place:]
    return bytes(damaged)


@pytest.mark.skipif(not native.is_compiled(), reason="there is no compiled build to compare with")
def test_both_implementations_agree_on_20_000_damaged_blocks():
    """
    On damaged blocks the compiled implementation, whose bounds checks are all explicit, must neither crash nor differ
    from the plain one, whatever bytes surround the block.
    """
    chance = random.Random(20_260)
    compiled = native.scan
    seeds = [
        [Record(chance.choice([None, b"", b"key"]), chance.randbytes(chance.randrange(30)), (), n) for n in range(3)],
        [Record(b"k" * 70, None, (("a", b"1"), ("", None)), -1), Record(None, b"v" * 130, (), 1 << 40)],
        [Record(None, None)],
    ]
    blocks = [block_of(records) for records in seeds]

    different = []
    for number in range(20_000):
        block, base = chance.choice(blocks)
        block = mutated(chance, block) if number % 20 else chance.randbytes(chance.randrange(40))
        count = chance.choice([1, 2, 3, 3, 3])
        base = chance.choice([base, base, base, OFFSET_MAX - 1, -OFFSET_MAX])
        around = chance.randbytes(12)
        window = (around + block + around, 12, 12 + len(block), count)
        ours = (
            compiled.check_records(*window, base),
            outcome_of(compiled.first_at_or_after, *window, base, 5),
            outcome_of(compiled.decode_records, *window, 7, base, 8, 9, 1),
            headers_of(compiled, around + block + around, 12, block, count),
            renumbered(compiled, around + block + around, 12, 12 + len(block), base, count),
            columns_of(compiled, block, count, base) if number % 4 == 0 else None,
        )
        theirs = (
            plain.check_records(block, 0, len(block), count, base),
            outcome_of(plain.first_at_or_after, block, 0, len(block), count, base, 5),
            outcome_of(plain.decode_records, block, 0, len(block), count, 7, base, 8, 9, 1),
            headers_of(plain, block, 0, block, count),
            renumbered(plain, block, 0, len(block), base, count),
            columns_of(plain, block, count, base) if number % 4 == 0 else None,
        )
        if ours != theirs:
            different.append((block, count, base, ours, theirs))

    assert different == []


def test_records_that_pass_the_check_can_be_read(scan):
    """`check_records` and `read_records` agree on which records are valid."""
    chance = random.Random(7)
    records = [Record(b"key", b"value", (("name", b"content"),), n) for n in range(3)]
    batch = build_batch(records)
    header = bytes(batch[:HEADER_BYTES])

    accepted = 0
    for _ in range(2_000):
        block = mutated(chance, bytes(batch[HEADER_BYTES:]))
        if scan.check_records(block, 0, len(block), 3, 0)[0] == 0:
            accepted += 1
            again = bytearray(header + block)
            struct.pack_into(">i", again, 8, len(again) - 12)
            assert len(read_records(again)) == 3

    assert accepted > 0


def test_offset_gaps_are_preserved(scan):
    """Compacted batches have gaps, so columns and search use the offset delta, not the index of the record."""
    block = bytearray()
    for delta in (0, 4, 9):
        append_record(block, delta, delta, None, b"v", ())
    offsets = memoryview(bytearray(24)).cast("q")

    fill = scan.ColumnFill(3, len(block), 101, 109)
    fill.want_offsets(offsets)
    fill.add(bytes(block), 0, len(block), 3, 100, 0)

    assert (fill.rows, offsets[0]) == (1, 104)
    assert scan.first_at_or_after(bytes(block), 0, len(block), 3, 0, 5) == (9, 9)
    assert numbered([Record(None, b"v")])[0].offset == 0


@given(records=record_lists)
def test_records_are_encoded_as_the_format_says(scan, records):
    """Both implementations return the bytes of the readable one in `record_bytes`, behind the reserved bytes."""
    expected = bytearray(5)
    for index, record in enumerate(records):
        delta = record.timestamp - records[0].timestamp
        append_record(expected, index, delta, record.key, record.value, record.headers)

    assert expected == scan.encode_records(records, records[0].timestamp, 5)


@pytest.mark.parametrize("content", [bytearray(b"abc"), memoryview(b"abc")])
def test_records_may_have_any_buffers(scan, content):
    assert scan.encode_records([(b"k", b"abc", (), 0)], 0, 0) == scan.encode_records([(b"k", content, (), 0)], 0, 0)


@pytest.mark.parametrize(("base", "timestamp"), [(-1, OFFSET_MAX), (OFFSET_MAX, -1), (5, -OFFSET_MAX)])
def test_a_timestamp_delta_beyond_64_bits_is_refused(scan, base, timestamp):
    with pytest.raises(ValueError, match="too far"):
        scan.encode_records([(None, None, (), timestamp)], base, 0)


@pytest.mark.parametrize(("base", "timestamp"), [(-1, OFFSET_MAX - 1), (OFFSET_MAX, 0), (0, -OFFSET_MAX)])
def test_a_timestamp_delta_of_64_bits_is_encoded(scan, base, timestamp):
    expected = bytearray()
    append_record(expected, 0, timestamp - base, None, None, ())

    assert expected == scan.encode_records([(None, None, (), timestamp)], base, 0)
