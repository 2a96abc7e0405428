"""The warning about rows without headers is logged only if they make Spark slow."""

import pyarrow as pa
import pytest

from tidemill.spark import session, slow_nulls

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def rows(count, headers):
    return pa.record_batch({"value": ["v"] * count, "headers": pa.array([headers] * count, HEADERS)})


def test_many_null_headers_are_warned_of(caplog):
    assert slow_nulls.warn(rows(5_000, None), None)
    assert "5000 of 5000 rows have null headers" in caplog.text
    assert "set spark.sql.execution.arrow.maxBytesPerBatch=2147483647 and" in caplog.text


@pytest.mark.parametrize(
    ("batch", "bytes_max"),
    [
        (rows(5_000, None), session.DEFAULTS[slow_nulls.KEY]),
        (rows(5_000, []), None),
        (rows(500, None), None),
        (pa.record_batch({"value": ["v"] * 5_000}), None),
    ],
    ids=["not measured", "empty", "few", "no headers"],
)
def test_other_batches_are_not_warned_of(batch, bytes_max, caplog):
    assert not slow_nulls.warn(batch, bytes_max)
    assert not caplog.text
