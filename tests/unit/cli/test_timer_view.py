"""How records that wait, and counts of them, are shown."""

import pytest

from tidemill.cli.timer_view import BAR_MAX, COLUMNS, bar, cells, columns, labels, print_record, row, time_left
from tidemill.client.timer_choice import DueOrder, Listed, WaitingRecord

NOW_MS = 1_769_846_400_000
HEADER = WaitingRecord.Header
LISTED = Listed(
    DueOrder(NOW_MS + 7_200_000, 3, 42),
    WaitingRecord(
        arrival=42,
        due_ms=NOW_MS + 7_200_000,
        timestamp_ms=NOW_MS,
        size_bytes=70,
        timer_id=b"ann\n1",
        key=b"\xff",
        value=b"v",
        headers=[HEADER(name="h", value=b"1"), HEADER(name="none", value=None)],
    ),
)


def test_a_record_is_one_line() -> None:
    """
    Control characters are escaped, and other bytes are base64.
    """
    line = ["2026-01-31T10:00:00Z", "2h", 3, 42, "ann\\n1", "base64:/w=="]

    assert line == cells(LISTED, NOW_MS, has_value=False)
    assert [*line, "v"] == cells(LISTED, NOW_MS, has_value=True)
    assert len(line) == len(COLUMNS)
    assert (*COLUMNS, "value") == columns(has_value=True)


def test_json_has_all_of_a_record() -> None:
    """
    The value is there only if it was asked for: null means that there is none.
    """
    found = row("t", LISTED, has_value=False)

    assert {"partition": 3, "arrival": 42, "due_ms": NOW_MS + 7_200_000}.items() <= found.items()
    assert ({"base64": "/w=="}, "ann\n1", 70) == (found["key"], found["timer_id"], found["size_bytes"])
    assert [["h", "1"], ["none", None]] == found["headers"]
    assert "value" not in found
    assert found | {"value": "v"} == row("t", LISTED, has_value=True)


def test_a_record_is_shown_with_one_field_on_each_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_record(LISTED, NOW_MS)

    shown = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert ("2026-01-31T10:00:00Z (in 2h)", "42", "h=1, none=") == (shown["due"], shown["arrival"], shown["headers"])


def test_what_is_due_is_due_now() -> None:
    assert ["now", "now", "1ms", "59s"] == [time_left(NOW_MS + it, NOW_MS) for it in (-5, 0, 1, 59_999)]


def test_buckets_have_names() -> None:
    assert ["within 90m", "90m to 1d", "after 1d"] == labels(["90m", "1d"])
    assert ["within 1h", "after 1h"] == labels(["1h"])


def test_a_bar_shows_a_share_of_the_greatest_count() -> None:
    assert [BAR_MAX, BAR_MAX // 2, 1, 0] == [len(bar(count, 1_000)) for count in (1_000, 500, 1, 0)]
    assert "" == bar(0, 0)
