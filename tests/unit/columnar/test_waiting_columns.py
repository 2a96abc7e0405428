"""The columns of records that wait."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from tidemill.batches.row_encoder import headers_type
from tidemill.client.waiting_records import WaitingRecord
from tidemill.columnar import waiting_columns
from tidemill.model.delayed_record import DUE_MS_MAX

Header = WaitingRecord.Header
MOMENT = pa.timestamp("us", tz="UTC")
WAITS = WaitingRecord(
    arrival=41,
    due_ms=1_800_000_000_123,
    timestamp_ms=1_700_000_000_456,
    size_bytes=99,
    timer_id=b"\xff",
    key=b"k",
    value=b"v",
    headers=[
        Header(name="a", value=b"1"),
        Header(name="tidemill-deliver-at", value=b"5"),
        Header(name="a", value=None),
        Header(name="tidemill-timer-id", value=b"\xff"),
        Header(name="tidemill-schedule", value=b"every 15m"),
        Header(name="tidemill-deliver-at", value=b"1800000000123"),
        Header(name="tidemill-arrival", value=b"41"),
        Header(name="tidemill-timestamp", value=b"3"),
    ],
)
PLAIN = WaitingRecord(arrival=42, due_ms=DUE_MS_MAX, timestamp_ms=-1, size_bytes=9)


def test_all_columns_have_the_types_of_records_and_of_the_sink():
    expected = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "timestamp": MOMENT,
        "headers": headers_type(),
        "arrival": pa.int64(),
        "deliver_at": MOMENT,
        "timer_id": pa.binary(),
    }

    found = waiting_columns.schema(None, has_headers=True)
    assert expected == {it.name: it.type for it in found}
    assert [*expected] == found.names
    assert [it for it in expected if it != "headers"] == waiting_columns.schema(None, has_headers=False).names


def test_records_become_rows_without_the_headers_that_columns_have():
    columns = waiting_columns.schema(None, has_headers=True)

    rows = waiting_columns.rows_of([WAITS, PLAIN], "t", 3, columns)

    rows.validate(full=True)
    first, second = rows.to_pylist()
    assert {
        "key": b"k",
        "value": b"v",
        "topic": "t",
        "partition": 3,
        "timestamp": datetime(2023, 11, 14, 22, 13, 20, 456_000, UTC),
        "headers": [
            {"key": "a", "value": b"1"},
            {"key": "a", "value": None},
            {"key": "tidemill-schedule", "value": b"every 15m"},
        ],
        "arrival": 41,
        "deliver_at": datetime(2027, 1, 15, 8, 0, 0, 123_000, UTC),
        "timer_id": b"\xff",
    } == first
    assert (None, None, [], 42, datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC), None) == (
        second["key"], second["value"], second["headers"], second["arrival"], second["deliver_at"], second["timer_id"],
    )  # fmt: skip


def test_a_timestamp_that_no_column_can_express_is_the_nearest():
    """
    A producer may write any; one of them must not keep a table from being read.
    """
    found = [WaitingRecord(arrival=1, due_ms=5, timestamp_ms=it, size_bytes=9) for it in ((1 << 63) - 1, -(1 << 63))]
    columns = waiting_columns.schema(["timestamp"], has_headers=False)

    rows = waiting_columns.rows_of(found, "t", 0, columns)

    last = (1 << 63) // 1_000 * 1_000
    assert [last, -last] == rows.column("timestamp").cast(pa.int64()).to_pylist()


def test_columns_are_in_the_order_in_which_they_are_named():
    columns = waiting_columns.schema(["timer_id", "arrival", "topic"], has_headers=False)

    assert {"timer_id": [b"\xff"], "arrival": [41], "topic": ["t"]} == waiting_columns.rows_of(
        [WAITS], "t", 3, columns
    ).to_pydict()
    assert ["timer_id", "arrival", "topic"] == columns.names


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ("offset", "column 'offset' exists only when a record is released: with records=waiting, use key, value,"),
        ("timestampType", "column 'timestampType' exists only when a record is released"),
        ("due", "column 'due' is unknown with records=waiting; the columns are key, value, topic"),
    ],
)
def test_a_column_that_does_not_exist_is_refused(column: str, sentence: str):
    with pytest.raises(ValueError) as refused:
        waiting_columns.schema(["value", column], has_headers=False)

    assert str(refused.value).startswith(sentence)


def test_the_columns_need_the_option():
    waiting_columns.refuse(["key", "offset"])
    with pytest.raises(ValueError, match="column 'deliver_at' requires option records=waiting"):
        waiting_columns.refuse(["key", "deliver_at"])
