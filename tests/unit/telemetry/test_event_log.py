"""The event log writes one line per event."""

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from tidemill.telemetry.event_log import LINE_CHARACTERS_MAX, OUTAGE_MS, EventLog


def test_an_event_is_a_readable_line() -> None:
    """
    An event is a readable line, in which values with spaces or special characters are quoted.
    """
    lines: list[str] = []
    log = EventLog(lines.append, lambda: 1_500, as_json=False)

    log.warning("disk is full", path="a b", free=3)

    assert ['1970-01-01T00:00:01.500Z warning disk is full  path="a b" free=3\n'] == lines


def test_waiting_becomes_a_warning() -> None:
    """A wait is logged as a warning only once it has lasted for some time, because a short wait needs no action."""
    lines: list[str] = []
    log = EventLog(lines.append, lambda: 0, as_json=True)

    for waited_ms in (0, OUTAGE_MS - 1, OUTAGE_MS):
        log.waiting("waiting for the cluster", waited_ms)

    assert ["info", "info", "warning"] == [json.loads(line)["level"] for line in lines]


@given(st.text(), st.integers(0, 253_402_300_799_999))
def test_an_event_is_one_json_object(value: str, wall_ms: int) -> None:
    """
    Whatever a field contains, the event is a single line, and parsing the line returns the value.
    """
    lines: list[str] = []
    log = EventLog(lines.append, lambda: wall_ms, as_json=True)

    log.event("ready", field=value)

    (line,) = lines
    moment = datetime.fromtimestamp(wall_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{wall_ms % 1000:03}Z"
    assert 1 == line.count("\n")
    assert {"time": moment, "level": "info", "event": "ready", "field": value} == json.loads(line)


def test_the_length_of_a_line_is_limited() -> None:
    """
    The length of a line is limited, because log collectors truncate long lines.
    """
    lines: list[str] = []

    EventLog(lines.append, lambda: 0, as_json=True).error("refused", name="x" * 100_000)
    EventLog(lines.append, lambda: 0, as_json=False).error("refused", name="x" * 100_000)

    assert [True, True] == [len(line) <= LINE_CHARACTERS_MAX + 1 for line in lines]
