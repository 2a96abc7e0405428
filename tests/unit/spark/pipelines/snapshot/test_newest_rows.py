"""Finding the newest row of every key in bounded memory."""

import random
from datetime import UTC, datetime

import pytest

pa = pytest.importorskip("pyarrow", reason="extra 'spark' is not installed")

from tidemill.batches.arrow import schema  # noqa: E402
from tidemill.spark.pipelines.snapshot.newest_rows import MERGED, NewestRows  # noqa: E402

COLUMNS = ["key", "value", "partition", "offset", "timestamp", "headers"]


def records(first, keys):
    """
    Return records at consecutive offsets from `first` on.  The values are the offsets, but every third value is null.
    """
    offsets = range(first, first + len(keys))
    return pa.record_batch(
        [
            pa.array(keys, pa.binary()),
            pa.array([None if offset % 3 == 0 else str(offset).encode() for offset in offsets], pa.binary()),
            pa.array([1] * len(keys), pa.int32()),
            pa.array(offsets, pa.int64()),
            pa.array([datetime.fromtimestamp(offset, UTC) for offset in offsets], pa.timestamp("us", "UTC")),
            pa.array([[{"key": "o", "value": str(offset).encode()}] for offset in offsets], schema(COLUMNS)[5].type),
        ],
        schema=schema(COLUMNS),
    )


def reduced(batches, **limits):
    newest = NewestRows(schema(COLUMNS), **limits)
    rows = [row for batch in batches for row in newest.add(batch)]
    return rows + list(newest.flush())


@pytest.mark.parametrize("gathered_bytes_max", [1, 2_000, 1 << 20])
def test_the_row_with_the_greatest_offset_of_every_key_is_left(gathered_bytes_max):
    """All columns of a key's row come from the key's newest record, even if the value of that record is null."""
    drawn = random.Random(1)
    keys = [drawn.choice([b"a", b"b", b"c", b"", None]) for _ in range(1_000)]

    rows = reduced(
        (records(first, keys[first : first + 7]) for first in range(0, 1_000, 7)), gathered_bytes_max=gathered_bytes_max
    )

    found = {row["key"]: row for batch in rows for row in batch.to_pylist()}
    assert 5 == len(found) == sum(batch.num_rows for batch in rows)
    for key, row in found.items():
        offset = max(offset for offset, one in enumerate(keys) if one == key)
        assert (offset, None if offset % 3 == 0 else str(offset).encode()) == (row["offset"], row["value"])
        assert [{"key": "o", "value": str(offset).encode()}] == row["headers"]
        assert keys.count(key) == row[MERGED]


def test_more_keys_than_fit_are_passed_on_in_parts():
    """
    If the keys exceed the memory limit, rows are returned in parts.  Each key is in at least one of the parts, and its
    greatest offset in them is that of its newest record.
    """
    keys = [str(number % 300).encode() for number in range(3_000)]

    rows = reduced(
        (records(first, keys[first : first + 50]) for first in range(0, 3_000, 50)),
        gathered_bytes_max=10_000,
        kept_bytes_max=5_000,
    )

    assert len(rows) > 3
    assert all(batch.nbytes < 30_000 for batch in rows)
    newest = {}
    for batch in rows:
        for row in batch.to_pylist():
            newest[row["key"]] = max(newest.get(row["key"], -1), row["offset"] or 0)
    assert {str(number).encode(): 2_700 + number for number in range(300)} == {
        key: offset for key, offset in newest.items() if key is not None
    }
    assert 3_000 == sum(sum(batch.column(MERGED).to_pylist()) for batch in rows)


def test_a_range_without_records_has_a_row_that_stands_for_none():
    """
    For a range without records, a row without a key that counts 0 records is returned.  Without this row, the result
    would be empty, and Spark would drop its count.
    """
    (rows,) = reduced([])

    assert [{**dict.fromkeys(COLUMNS), MERGED: 0}] == rows.to_pylist()
