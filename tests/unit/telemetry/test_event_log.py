"""One line per event."""

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from tidemill.telemetry.event_log import LINE_CHARACTERS_MAX, EventLog


def test_an_event_is_a_line_for_people() -> None:
    """
    Values that would break the line are quoted.
    """
    lines: list[str] = []
    log = EventLog(lines.append, lambda: 1_500, as_json=False)

    log.warning("disk is full", path="a b", free=3)

    assert ['1970-01-01T00:00:01.500Z warning disk is full  path="a b" free=3\n'] == lines


@given(st.text(), st.integers(0, 253_402_300_799_999))
def test_an_event_is_one_object_for_programs(value: str, wall_ms: int) -> None:
    """
    Whatever a field holds, it is one line, and it comes back.
    """
    lines: list[str] = []
    log = EventLog(lines.append, lambda: wall_ms, as_json=True)

    log.event("ready", field=value)

    (line,) = lines
    moment = datetime.fromtimestamp(wall_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{wall_ms % 1000:03}Z"
    assert 1 == line.count("\n")
    assert {"time": moment, "level": "info", "event": "ready", "field": value} == json.loads(line)


def test_a_line_has_an_end() -> None:
    """
    What collects lines would cut longer ones anywhere.
    """
    lines: list[str] = []

    EventLog(lines.append, lambda: 0, as_json=True).error("refused", name="x" * 100_000)
    EventLog(lines.append, lambda: 0, as_json=False).error("refused", name="x" * 100_000)

    assert [True, True] == [len(line) <= LINE_CHARACTERS_MAX + 1 for line in lines]
