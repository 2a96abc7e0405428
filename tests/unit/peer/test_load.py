"""The figures that brokers send to the controller are read as they were written; what cannot be read is refused."""

import tracemalloc

import pytest
from hypothesis import given, settings

from tests.unit.peer.loads import LOADS, REPORT, SHARD
from tidemill.peer.load import (
    LOAD_BYTES_MAX,
    Load,
    decode_load,
    encode_load,
)
from tidemill.peer.tagged_fields import MalformedFrame


def field(tag: int, data: bytes) -> bytes:
    return bytes([tag]) + len(data).to_bytes(4) + data


@settings(deadline=None)
@given(LOADS)
def test_a_report_survives_a_round_trip(load: Load) -> None:
    """Encoding and decoding preserve every figure, member and order."""
    assert load == decode_load(memoryview(encode_load(load)))


def test_a_report_that_is_cut_off_is_refused() -> None:
    """A report that ends anywhere but between two fields is refused, instead of being read with figures missing."""
    whole = encode_load(REPORT)
    border = 5 + 36  # the header and the figures of the broker

    for length in range(len(whole)):
        if length in (0, border):
            assert decode_load(memoryview(whole[:length])).shards == ()
        else:
            with pytest.raises(MalformedFrame):
                decode_load(memoryview(whole[:length]))


def test_an_unknown_field_is_skipped() -> None:
    """A later feature adds fields: this version reads those around them."""
    whole = encode_load(REPORT)
    unknown = field(9, b"the wait in a queue")

    assert REPORT == decode_load(memoryview(unknown + whole + unknown))


def test_an_unknown_field_that_is_cut_off_is_refused() -> None:
    """A field that announces more bytes than are left is refused, even if this version would skip it."""
    with pytest.raises(MalformedFrame, match="field 9 of a report of the load announces 5 bytes; 4 are left"):
        decode_load(memoryview(field(9, b"later")[:-1]))


@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.parametrize("tag", [1, 2])
def test_a_field_of_another_length_is_refused(tag: int, change: int) -> None:
    """A field is refused if it has bytes too few or too many for the members that it announces."""
    whole = encode_load(REPORT)
    data = whole[5:41] if tag == 1 else whole[46:]
    data = data[:change] if change < 0 else data + b"x"

    with pytest.raises(MalformedFrame, match=f"bytes, not {len(data)}"):
        decode_load(memoryview(field(tag, data)))


def test_counts_of_members_allocate_nothing() -> None:
    """A shard that announces 65,535 voters and learners, and brings none, is refused before memory is taken."""
    fields = encode_load(Load(broker=None, shards=(SHARD,)))[5:46]
    hostile = memoryview(field(2, fields[:-4] + b"\xff" * 4))
    tracemalloc.start()
    try:
        with pytest.raises(MalformedFrame, match="65535 voters"):
            decode_load(hostile)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 64 << 10


def test_a_report_that_is_too_long_is_refused() -> None:
    """One frame may have 64 MiB, but so many figures are no report: they would become values of many times the size."""
    shard = encode_load(Load(broker=None, shards=(SHARD,)))
    fits = shard * (LOAD_BYTES_MAX // len(shard))

    assert len(decode_load(memoryview(fits)).shards) == len(fits) // len(shard)
    with pytest.raises(MalformedFrame, match="it may have 4194304"):
        decode_load(memoryview(fits + shard))
