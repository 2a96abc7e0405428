"""Durations in the arguments of the client."""

from datetime import timedelta
from typing import Any

import pytest

from tidemill.sdk.durations import milliseconds


@pytest.mark.parametrize(
    ("value", "expected"), [("250ms", 250), ("2s", 2_000), (1.5, 1_500), (3, 3_000), (timedelta(minutes=1), 60_000)]
)
def test_a_duration_is_a_text_a_number_of_seconds_or_a_timedelta(value: Any, expected: int) -> None:
    assert expected == milliseconds("delay", value)


@pytest.mark.parametrize(
    ("value", "expected"), [(0.0001, 1), (1.0001, 1_001), (2.3, 2_300), (16.1, 16_100), (timedelta(microseconds=1), 1)]
)
def test_a_duration_is_rounded_up_to_a_millisecond(value: Any, expected: int) -> None:
    """Nothing ends early; digits that only the binary form of a number has do not count."""
    assert expected == milliseconds("delay", value)


@pytest.mark.parametrize(
    "value",
    ["soon", "", -1, float("inf"), float("nan"), True, None, "8d", timedelta(days=8), timedelta.max, timedelta.min],
)
def test_a_refusal_names_the_argument_and_its_value(value: Any) -> None:
    with pytest.raises(ValueError, match="delay=") as refused:
        milliseconds("delay", value)

    assert repr(value) in str(refused.value)
