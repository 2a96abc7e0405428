"""Packed rows."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tidemill.timer.due_row import KEPT, ROW_BYTES, DueRow, arrivals_of, pack_rows, unpack_rows

WORD = st.integers(0, (1 << 32) - 1)
OFFSET = st.integers(0, (1 << 64) - 1)
TIME = st.integers(0, (1 << 63) - 1)
ROWS = st.builds(DueRow, st.integers(0, 9), st.integers(0, 9), OFFSET, WORD, WORD, WORD, WORD, TIME)


def test_a_row_has_these_bytes() -> None:
    row = DueRow(1_800_000_000_000, 5, KEPT | 6, 7, 8, 9, 10, -1)

    expected = "000001a3185c5000 0000000000000005 8000000000000006 00000007 00000008 00000009 0000000a ffffffffffffffff"
    assert bytes.fromhex(expected) == pack_rows([row])


@given(st.lists(ROWS))
def test_packed_rows_are_in_order_as_bytes(rows: list[DueRow]) -> None:
    """The order is that of (due, arrival, offset): the newest copy of a record comes last."""
    packed = sorted(pack_rows([row]) for row in rows)

    assert sorted(rows) == [*unpack_rows(b"".join(packed))]
    assert [row.arrival for row in rows] == arrivals_of(pack_rows(rows))


def test_a_part_of_a_row_is_refused() -> None:
    with pytest.raises(Exception, match=str(ROW_BYTES)):
        [*unpack_rows(bytes(ROW_BYTES + 1))]
