"""Keys and priorities of records in batches."""

import tracemalloc

import pytest

from tidemill.batches.builder import build_batch
from tidemill.batches.compression import Codec
from tidemill.batches.records import OPENED_BYTES_MAX, open_block
from tidemill.share.opened_batches import HASHED_BYTES_MAX, RECORDS_MAX, OpenedBatches, OpenedRecord, open_batches


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("has_priorities", [False, True])
def test_keys(codec: Codec, has_priorities: bool) -> None:
    """
    Equal keys have equal hashes, and a null key has none.  Records below the start are left out.
    """
    rows = [(b"a", b"1", (), 1), (None, b"2", (), 1), (b"b", b"3", (), 1), (b"a", None, (), 1), (b"", b"", (), 1)]
    batch = build_batch(rows, base_offset=10, codec=codec)

    opened = open_batches([batch], 11, has_priorities=has_priorities)

    assert 15 == opened.end
    assert [11, 12, 13, 14] == [record.offset for record in opened.records]
    assert [None, hash(b"b"), hash(b"a"), hash(b"")] == [record.key for record in opened.records]


@pytest.mark.parametrize(
    ("value", "priority"), [(b"0", 0), (b"9", 9), (b"10", 4), (b"high", 4), (b"", 4), (None, 4), (b"-1", 4)]
)
def test_priorities(value: bytes | None, priority: int) -> None:
    """
    The priority is the first header `tidemill-priority`, one digit.  Anything else is the default priority.
    """
    headers = (("other", b"1"), ("tidemill-priority", value), ("tidemill-priority", b"7"))
    batch = build_batch([(None, b"", headers, 1), (None, b"", (), 1)])

    opened = open_batches([batch], 0, has_priorities=True)

    assert [OpenedRecord(0, None, priority), OpenedRecord(1, None, 4)] == opened.records


@pytest.mark.parametrize("has_priorities", [False, True])
def test_a_batch_that_cannot_be_decoded_is_passed(has_priorities: bool) -> None:
    """
    Its offsets are known, without keys, so that a consumer can receive and reject them.
    """
    damaged = build_batch([(b"a", b"1", (), 1), (b"a", b"2", (), 1)])
    damaged[61] = 0xFF  # the length of the first record
    good = build_batch([(b"a", b"3", (), 1)], base_offset=2)

    opened = open_batches([bytes(damaged), good], 0, has_priorities=has_priorities)

    assert 3 == opened.end
    assert [2] == [record.offset for record in opened.records]


@pytest.mark.parametrize("has_priorities", [False, True])
def test_records_are_opened_in_parts(has_priorities: bool) -> None:
    """
    A small batch may have millions of records when it is decompressed.  The next part begins where one ends.
    """
    batch = build_batch([(b"k", b"", (), 1)] * (RECORDS_MAX + 5), base_offset=10, codec=Codec.ZSTD)
    behind = build_batch([(b"k", b"", (), 1)], base_offset=RECORDS_MAX + 15)

    first = open_batches([batch, behind], 10, has_priorities=has_priorities)
    second = open_batches([batch, behind], first.end, has_priorities=has_priorities)

    assert (RECORDS_MAX + 10, RECORDS_MAX) == (first.end, len(first.records))
    assert (RECORDS_MAX + 16, 6) == (second.end, len(second.records))
    assert RECORDS_MAX + 10 == second.records[0].offset


@pytest.mark.parametrize("has_priorities", [False, True])
def test_offsets_of_a_batch_that_lie_behind_it_are_no_records(has_priorities: bool) -> None:
    """
    No program checks the offsets in a compressed batch: the header says where it ends.
    """
    batch = build_batch([(b"k", b"", (), 1)] * 4, codec=Codec.ZSTD)
    batch[23:27] = (1).to_bytes(4)  # the offset delta of the last record

    opened = open_batches([batch], 0, has_priorities=has_priorities)

    assert (2, [0, 1]) == (opened.end, [record.offset for record in opened.records])


def test_countless_headers_take_no_memory() -> None:
    """
    Each would take a hundred bytes if it were decoded, and two bytes can be one.
    """
    headers = [*[("", None)] * 100_000, ("tidemill-priority", b"9")]
    batch = build_batch([(None, b"", headers, 1)], codec=Codec.ZSTD)
    tracemalloc.start()

    opened = open_batches([batch], 0, has_priorities=True)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [OpenedRecord(0, None, 9)] == opened.records
    assert peak < 2_000_000


@pytest.mark.parametrize("more", [0, 1])
def test_a_batch_that_decompresses_to_too_much_is_passed(more: int) -> None:
    """The limit counts decompressed bytes; a batch beyond it is treated like one that cannot be decoded."""
    overhead = open_block(build_batch([(b"k", bytes(OPENED_BYTES_MAX - 100), (), 1)])).size - OPENED_BYTES_MAX + 100
    batch = build_batch([(b"k", bytes(OPENED_BYTES_MAX - overhead + more), (), 1)], codec=Codec.ZSTD)

    opened = open_batches([batch], 0, has_priorities=False)

    assert OpenedBatches(1, [] if more else [OpenedRecord(0, hash(b"k"), 4)]) == opened


def test_the_beginning_of_a_long_key_is_hashed() -> None:
    """A key may take most of a batch, and is copied to be hashed."""
    begin = bytes(HASHED_BYTES_MAX - 1)
    keys = [begin + b"a", begin + b"b", begin + b"a" + begin]
    batch = build_batch([(key, b"", (), 1) for key in keys], codec=Codec.ZSTD)

    first, second, third = open_batches([batch], 0, has_priorities=False).records

    assert (True, False) == (first.key == third.key, first.key == second.key)
