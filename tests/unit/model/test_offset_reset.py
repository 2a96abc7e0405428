"""The values of `share.auto.offset.reset`."""

import pytest

from tidemill.model.offset_reset import EARLIEST, LATEST, OffsetReset, ResetRule, parse_offset_reset

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        (" Latest ", LATEST),
        ("by_duration:P2D", OffsetReset(ResetRule.BY_DURATION, 2 * DAY_MS)),
        ("by_duration:PT1H30M", OffsetReset(ResetRule.BY_DURATION, 5_400_000)),
        ("by_duration:P1DT1S", OffsetReset(ResetRule.BY_DURATION, DAY_MS + 1_000)),
        ("by_duration:pt0.25s", OffsetReset(ResetRule.BY_DURATION, 250)),
        ("BY_DURATION:PT0.123456789S", OffsetReset(ResetRule.BY_DURATION, 123)),
        ("by_duration:PT0S", OffsetReset(ResetRule.BY_DURATION, 0)),
    ],
)
def test_legal_values_are_parsed(text: str, value: OffsetReset) -> None:
    """Every form that Kafka accepts is parsed, with upper-case and lower-case letters."""
    assert value == parse_offset_reset(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none",
        "by_duration",
        "by_duration:",
        "by_duration:P",
        "by_duration:PT",
        "by_duration:P1DT",
        "by_duration:P1H",
        "by_duration:-P1D",
        "by_duration:P1Y",
        "by_duration:1D",
        "by_duration:PT1.S",
        "by_duration:P٣D",
        "by_duration:P" + "9" * 400 + "D",
        "P1D",
        "earliest:P1D",
    ],
)
def test_other_values_are_refused(text: str) -> None:
    """
    Any other value is refused, including a negative duration, which would lie in the future; the error lists the legal
    forms.
    """
    with pytest.raises(ValueError, match="must be earliest, latest, or by_duration"):
        parse_offset_reset(text)
