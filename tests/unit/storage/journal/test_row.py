"""A row whose bytes are missing is a bug, and it is detected before the row is written."""

import pytest

from tidemill.model.shard import ShardId
from tidemill.raft.entry import Entry, Kind
from tidemill.storage.journal.row import ROW_BYTES, RowKind, encode_row


def test_a_row_without_its_bytes_is_not_written() -> None:
    """A row without its bytes is not written, because its CRC would be wrong."""
    with pytest.raises(AssertionError):
        encode_row(ShardId(1), Entry(Kind.BATCH, None))


def test_a_row_has_one_size() -> None:
    """All rows have the same size, so readers find a row in a table by multiplying its number by this size."""
    assert ROW_BYTES == len(encode_row(ShardId(1), Entry(RowKind.VOTE, b"")))
