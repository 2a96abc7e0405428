"""The rows of a task: their headers and their sizes."""

import pytest

pa = pytest.importorskip("pyarrow", reason="extra 'spark' is not installed")

from tidemill.spark.pipelines.backfill.part_task import record_sizes, sum_of, with_headers  # noqa: E402 - needs pyarrow

BATCH = pa.record_batch(
    {
        "key": pa.array([b"k", None, b""], pa.binary()),
        "value": pa.array([b"abc", b"", None], pa.binary()),
        "timestamp": pa.array([1, 2, 3], pa.timestamp("us", "UTC")),
        "partition": pa.array([0, 1, 0], pa.int32()),
        "header_0": pa.array([b"x", None, b"xx"], pa.binary()),
        "header_1": pa.array([b"1", b"2", None], pa.binary()),
    }
)


def test_each_row_has_all_headers_in_the_order_of_the_option():
    rows = with_headers(BATCH, ("origin", "month"))

    assert ["key", "value", "timestamp", "partition", "headers"] == rows.schema.names
    assert [
        [{"key": "origin", "value": b"x"}, {"key": "month", "value": b"1"}],
        [{"key": "origin", "value": None}, {"key": "month", "value": b"2"}],
        [{"key": "origin", "value": b"xx"}, {"key": "month", "value": None}],
    ] == rows.column("headers").to_pylist()
    assert [[{"key": "origin", "value": None}, {"key": "month", "value": b"2"}]] == with_headers(
        BATCH.slice(1, 1), ("origin", "month")
    ).column("headers").to_pylist()


def test_without_headers_there_is_no_such_column():
    assert ["key", "value", "timestamp", "partition"] == with_headers(BATCH, ()).schema.names


def test_the_size_of_a_row_is_that_of_key_value_and_headers():
    sizes = record_sizes(BATCH)

    assert [6, 1, 2] == sizes.to_pylist()
    assert (9, 3, 0) == (sum_of(sizes), sum_of(sizes.slice(1)), sum_of(sizes.slice(3)))
