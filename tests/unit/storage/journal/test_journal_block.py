"""Blocks and rows are read back as they were written, and rejected if a byte of them is wrong."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.model.shard import ShardId
from tidemill.raft.entry import Entry, Kind
from tidemill.storage.data_directory import DirectoryProblem
from tidemill.storage.journal.journal_block import HEADER_BYTES, PAGE_BYTES, decode_header, decode_rows, encode_block
from tidemill.storage.journal.row import ROW_BYTES, decode_row, encode_row

KEY = b"k" * 16


def entry_of(payload: bytes, number: int = 1) -> Entry:
    entry = Entry(
        Kind.BATCH,
        payload,
        partition=number,
        base_offset=number << 33,
        record_count=number,
        append_time=number << 40,
        index=number << 34,
        term=number << 35,
    )
    entry.position, entry.segment_base = number, number << 32
    return entry


def block_of(payloads: list[bytes]) -> bytes:
    rows = [(ShardId(number << 36), entry_of(payload, number)) for number, payload in enumerate(payloads, 1)]
    parts, size = encode_block(KEY, 5, 3, rows)
    data = b"".join(bytes(part) for part in parts)
    assert size == len(data)
    return data


@given(st.lists(st.binary(max_size=300), max_size=12))
def test_a_block_is_read_as_it_was_written(payloads: list[bytes]) -> None:
    """A block is read back as it was written, and its size is a whole number of pages."""
    data = block_of(payloads)

    header = decode_header(KEY, data)
    assert header is not None
    rows = decode_rows(header, memoryview(data))

    assert rows is not None
    assert (0, len(data), 5, 3) == (len(data) % PAGE_BYTES, header.size_bytes, header.sequence, header.synced)
    assert payloads == [bytes(entry.payload or b"") for _, entry in rows]


@settings(max_examples=150)
@given(st.data())
def test_no_flipped_bit_passes(data: st.DataObject) -> None:
    """
    A flipped bit anywhere in the header, the rows or their bytes makes a checksum fail.  (The padding contains no
    data.)
    """
    block = bytearray(block_of([b"a" * 50, b"", b"c" * 70]))
    used = HEADER_BYTES + 3 * ROW_BYTES + 120
    at = data.draw(st.integers(0, used - 1))
    block[at] ^= 1 << data.draw(st.integers(0, 7))

    header = decode_header(KEY, block)

    assert header is None or decode_rows(header, memoryview(block)) is None


def test_a_block_of_another_directory_is_rejected() -> None:
    """
    A block with another directory's key is rejected (rule J4).  The key also prevents clients from forging blocks.
    """
    assert decode_header(b"x" * 16, block_of([b"a"])) is None


def test_a_newer_version_is_refused_and_not_cut() -> None:
    """A block of a newer version is refused, and never mistaken for the end of the journal."""
    from tidemill.batches.checksum import crc32c

    block = bytearray(block_of([b"a"]))
    block[8:10] = (2).to_bytes(2)
    block[4:8] = crc32c(bytes(block[8:HEADER_BYTES]), crc32c(KEY)).to_bytes(4)

    with pytest.raises(DirectoryProblem, match="version 2"):
        decode_header(KEY, block)


def test_a_row_keeps_every_number() -> None:
    """Every number in a row is read back with the full width of its field."""
    entry = entry_of(b"payload", 3)

    shard_id, again, length, _ = decode_row(encode_row(ShardId(9 << 40), entry), 0)

    assert (9 << 40, 7) == (shard_id, length)
    for name in Entry.__slots__:
        if name not in ("payload", "header"):
            assert getattr(entry, name) == getattr(again, name), name
