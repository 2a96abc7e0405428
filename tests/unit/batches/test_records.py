"""Decoding the records of a batch into `Record` objects."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.batches.batch import MalformedBatch, stamp_log_append_time
from tidemill.batches.builder import build_batch
from tidemill.batches.compression import Codec, CompressionError
from tidemill.batches.records import (
    NO_HEADER,
    PLACES_MAX,
    Record,
    TooManyHeaders,
    open_block,
    read_record,
    read_records,
    timestamp_from,
)

RECORDS = [Record(b"key", b"value", (("name", b"content"), ("empty", None)), 5), Record(None, None, (), 6)]


@given(place=st.integers(61, 200), noise=st.binary(min_size=1, max_size=8))
def test_damaged_records_are_read_or_refused(place, noise):
    """A damaged batch whose CRC was not checked is read or raises MalformedBatch, and no other exception."""
    built = build_batch(RECORDS)
    built[min(place, len(built) - 1) :][: len(noise)] = noise
    start = min(place, len(built) - len(noise))
    built[start : start + len(noise)] = noise

    try:
        found = len(read_records(built))
    except MalformedBatch:
        found = 2

    assert found == 2


def test_a_truncated_batch_is_refused():
    """A batch that is truncated at any byte is refused."""
    built = bytes(build_batch(RECORDS))

    for end in range(len(built)):
        with pytest.raises(MalformedBatch):
            read_records(built[:end])


def test_bytes_after_the_last_record_are_refused():
    """Bytes after the last record are refused, because a record count that is too small would hide records."""
    built = build_batch(RECORDS)
    struct.pack_into(">i", built, 57, 1)

    with pytest.raises(MalformedBatch, match="follow the last record"):
        read_records(built)


def test_the_size_of_decompressed_records_is_limited():
    """The size of decompressed records is limited, because a batch of 200 bytes may decompress to megabytes."""
    built = build_batch([Record(None, bytes(1 << 20))], codec=Codec.ZSTD)

    with pytest.raises(CompressionError, match="more than"):
        read_records(built, size_max=1 << 20)


def test_further_headers_of_each_record_are_left_out():
    """Those that are left out count for no limit on the headers of all records."""
    headers = [("a", b"1"), ("b", None), ("c", b"3")]
    built = build_batch([Record(None, b"", headers[:count], 7) for count in (3, 1, 0)])

    found = read_records(built, headers_each=2, headers_max=3)

    assert [tuple(headers[:2]), tuple(headers[:1]), ()] == [it.headers for it in found]
    with pytest.raises(TooManyHeaders, match="record 0: it has 3 headers, more than 1"):
        read_records(built, headers_each=2, headers_max=1)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("is_last", [False, True])
def test_keys_and_one_header_are_found_without_decoding(codec, is_last):
    """The first or the last header with the name counts; longer and shorter names are others."""
    headers = [("name", b"12"), ("names", b"3"), ("nam", None), ("name", None if is_last else b"456")]
    rows = [Record(b"k%d" % at, b"x", headers, at) for at in range(2 * PLACES_MAX + 1)]
    rows[-1] = Record(None, b"x", headers[1:3], -1)
    block = open_block(build_batch(rows, base_offset=10, codec=codec))

    def content(start, length):
        return length if length < 0 else bytes(memoryview(block.data)[start : start + length])

    found = [*block.places("name", first=12, is_last=is_last)]

    value = -1 if is_last else b"12"
    keys = [-1 if it.key is None else it.key for it in rows[2:]]
    assert [*range(12, 10 + len(rows))] == [it.offset for it in found]
    assert [it.timestamp for it in rows[2:]] == [it.timestamp for it in found]
    assert keys == [content(it.key_start, it.key_length) for it in found]
    assert [value] * (len(found) - 1) + [NO_HEADER] == [content(it.header_start, it.header_length) for it in found]
    assert {NO_HEADER} == {it.header_length for it in block.places()}


def test_the_places_of_malformed_records_are_not_found():
    """Neither if one of them is damaged, nor if bytes follow the last one."""
    built = build_batch(RECORDS, base_offset=10)
    for damaged in (built[:-1] + b"\x09", built + b"more"):
        damaged[8:12] = (len(damaged) - 12).to_bytes(4)
        with pytest.raises(MalformedBatch):
            [*open_block(damaged).places()]


def test_a_batch_is_read_at_its_position():
    """A batch is read at the given position of a buffer."""
    built = build_batch(RECORDS, base_offset=10)

    found = read_records(b"noise" + built + b"noise", position=5)

    assert [RECORDS[0]._replace(offset=10), RECORDS[1]._replace(offset=11)] == found


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_one_record_is_read_alone(codec):
    """`read_record` returns what `read_records` returns, and None for an offset that the batch does not have."""
    built = build_batch(RECORDS, base_offset=10, codec=codec)

    assert read_records(built) == [read_record(built, 10), read_record(built, 11)]
    assert read_record(built, 9) is None
    assert read_record(built, 12) is None


@given(place=st.integers(61, 200), noise=st.binary(min_size=1, max_size=8))
def test_one_damaged_record_is_read_or_refused(place, noise):
    """A damaged batch whose CRC was not checked raises ValueError at worst."""
    built = build_batch(RECORDS)
    start = min(place, len(built) - len(noise))
    built[start : start + len(noise)] = noise

    with suppress(ValueError):
        read_record(built, 1)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_timestamp_is_found_by_offset(codec):
    """It is that of the first record at or after the offset: compaction leaves gaps."""
    records = [Record(None, b"x", (), 100 + 7 * n % 10) for n in range(20)]
    built = build_batch(records, base_offset=10, codec=codec)

    assert [one.timestamp for one in records] == [timestamp_from(built, offset) for offset in range(10, 30)]
    assert (100, None) == (timestamp_from(built, 3), timestamp_from(built, 30))


def test_all_records_have_the_time_of_the_append():
    built = build_batch(RECORDS)
    stamp_log_append_time(built, 77)

    assert 77 == timestamp_from(built, 1)
