"""Where a group without a position begins to read a partition: the values of `share.auto.offset.reset`."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"P(?:([0-9]{1,6})D)?(?:T(?=[0-9])(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?"
    r"(?:([0-9]{1,9})(?:\.([0-9]{1,3})[0-9]{0,6})?S)?)?"
)
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)


class ResetRule(StrEnum):
    EARLIEST = "earliest"  # begin at the log start offset
    LATEST = "latest"  # begin at the high watermark
    BY_DURATION = "by_duration"  # begin at the first record that is not older than a duration


@dataclass(frozen=True, slots=True)
class OffsetReset:
    rule: ResetRule
    duration_ms: int = 0  # how old records may be under BY_DURATION; 0 for other rules


EARLIEST: Final = OffsetReset(ResetRule.EARLIEST)
LATEST: Final = OffsetReset(ResetRule.LATEST)


def parse_offset_reset(text: str) -> OffsetReset:
    """
    Return the value that `text` represents: `earliest`, `latest`, or `by_duration:` with an ISO 8601 duration of days,
    hours, minutes and seconds, such as `by_duration:P1DT12H`.  Letters may have either case, as in Kafka.

    Raise ValueError, with the requirement as its message, if `text` is not such a value.
    """
    lowered = text.strip().lower()
    if lowered in (ResetRule.EARLIEST, ResetRule.LATEST):
        return OffsetReset(ResetRule(lowered))
    found = _DURATION.fullmatch(lowered.removeprefix(_BY_DURATION).upper())
    if not lowered.startswith(_BY_DURATION) or found is None or not any(found.groups()):
        raise ValueError("must be earliest, latest, or by_duration: with a duration, such as by_duration:PT12H")
    *counts, fraction = found.groups(default="0")
    whole_ms = sum(int(count) * unit for count, unit in zip(counts, _UNITS_MS, strict=True))
    return OffsetReset(ResetRule.BY_DURATION, whole_ms + int(fraction.ljust(3, "0")))
