"""Durations as text."""

import pytest

from tidemill.model.duration import parse_duration_ms, shown


@pytest.mark.parametrize(
    ("text", "expected"), [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("2h", 7_200_000), ("1d", 86_400_000)]
)
def test_a_duration_has_a_number_and_a_unit(text: str, expected: int) -> None:
    assert expected == parse_duration_ms(text)


@pytest.mark.parametrize("text", ["", "10", "s", "1.5s", "-1s", " 1s", "1 s", "1w", "1s\n", "9999999999999s"])
def test_other_text_is_no_duration(text: str) -> None:
    assert parse_duration_ms(text) is None


def test_a_duration_is_shown_in_its_largest_unit() -> None:
    assert ["0ms", "999ms", "59s", "1m", "23h", "7d"] == [
        shown(ms) for ms in (0, 999, 59_999, 60_000, 86_399_999, 604_800_000)
    ]
