"""How differences between records are named and shown."""

import pytest

from tidemill.spark.pipelines.audit.difference import Difference, RecordText, changed_parts, table_of
from tidemill.spark.pipelines.audit.options import Ignored

ONE = RecordText(2, 7, "2 bytes, 00", "5 bytes, aa", "no headers", 1_357_034_400_123_000)


@pytest.mark.parametrize(
    ("changes", "ignored", "parts"),
    [
        ({}, (), ""),
        ({"offset": 8}, (), ""),
        ({"value": "empty"}, (), "value"),
        ({"key": "null", "headers": "1 headers, 00"}, (), "key, headers"),
        ({"headers": "1 headers, 00"}, (Ignored.HEADERS,), ""),
        ({"timestamp_us": 0}, (), "timestamp"),
        ({"timestamp_us": 0, "value": "null"}, (Ignored.TIMESTAMP,), "value"),
    ],
)
def test_the_parts_that_differ_are_named(changes: dict[str, object], ignored: tuple[Ignored, ...], parts: str) -> None:
    """
    A difference names each part of the record that differs and is not ignored.
    """
    assert parts == changed_parts(ONE, ONE._replace(**changes), ignored)


def test_a_difference_shows_what_differs_on_both_sides() -> None:
    """
    A row contains the position of the record on each side and, for each side, the parts that differ.
    """
    other = ONE._replace(offset=9, value="empty", timestamp_us=0)
    found = [Difference("value, timestamp", ONE, other), Difference("missing", ONE, None), Difference("x", None, other)]

    assert [
        (2, 7, 9, "2 bytes, 00", "value, timestamp", "5 bytes, aa; 2013-01-01T10:00:00.123+00:00",
         "empty; 1970-01-01T00:00:00.000+00:00"),
        (2, 7, None, "2 bytes, 00", "missing", "5 bytes, aa", None),
    ] == table_of(found, 2).rows  # fmt: skip
    assert (2, None, 9, "2 bytes, 00", "x", None, "empty") == found[2].cells
