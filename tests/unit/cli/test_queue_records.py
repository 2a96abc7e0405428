"""Records of queues as cells and as JSON."""

from typing import Any

from tidemill.batches.records import Record
from tidemill.cli.queue_records import moment, record_cells
from tidemill.cli.record_json import record_as_json, row_as_json


def test_a_record_is_one_line() -> None:
    """
    Control characters are escaped, other bytes are base64, and null differs from empty.
    """
    assert (None, "a\\nb\\tc\\x1b[m") == record_cells(Record(None, b"a\nb\tc\x1b[m"))
    assert ("", "base64:/w==") == record_cells(Record(b"", b"\xff"))


def test_times_are_utc() -> None:
    assert "2026-01-31T08:00:00Z" == moment(1_769_846_400_999)


def test_any_timestamp_has_a_text() -> None:
    """
    Producers may choose any timestamp, also one that no calendar has.
    """
    assert "9999-12-31T23:59:59Z" == moment(253_402_300_799_999)
    assert "9223372036854775807 ms" == moment((1 << 63) - 1)


class Delivered:
    """The part of `confluent_kafka.Message` that is shown."""

    def __init__(self, **values: Any) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        return lambda: self._values[name]


def test_both_clients_show_the_same_object() -> None:
    """
    `queue receive` and `consume` print a record with the same fields.
    """
    record = Record(b"k", b"v", (("h", b"1"),), 5, 7)
    for kind, name in ((1, "CreateTime"), (2, "LogAppendTime")):
        message = Delivered(
            topic="t", partition=3, offset=7, timestamp=(kind, 5), key=b"k", value=b"v", headers=[("h", b"1")]
        )
        row = row_as_json("t", 3, record, is_log_append_time=kind == 2)
        assert row == record_as_json(message)
        assert (5, name) == (row["timestamp"], row["timestamp_type"])
    without = record_as_json(
        Delivered(topic="t", partition=3, offset=7, timestamp=(0, -1), key=None, value=None, headers=None)
    )
    assert (None, None, []) == (without["timestamp"], without["timestamp_type"], without["headers"])
