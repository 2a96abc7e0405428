"""Durations as options take them."""

import pytest

from tidemill.cli.duration import duration_ms
from tidemill.cli.failure import ExitCode, Failed


@pytest.mark.parametrize(("text", "expected"), [("0s", 0), ("250ms", 250), ("3m", 180_000), ("2d", 172_800_000)])
def test_a_duration_has_a_unit(text: str, expected: int) -> None:
    assert expected == duration_ms(text, option="--wait", at_most_ms=200_000_000)


@pytest.mark.parametrize("text", ["", "5", "-1s", "1.5h", "1w", "3d", "٣s"])
def test_other_texts_are_usage_errors(text: str) -> None:
    """
    The error names the option and the value.
    """
    with pytest.raises(Failed, match="--wait") as error:
        duration_ms(text, option="--wait", at_most_ms=172_800_000)
    assert ExitCode.USAGE == error.value.exit_code
