"""How long a share group waits before it delivers a record again: the values of `tidemill.share.backoff`.

A value is a JSON object, for example `{"kind": "exponential", "first": "1s", "factor": 2, "max": "5m", "jitter": 0.1}`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from tidemill.model.duration import parse_duration_ms

Random = Callable[[], float]
"""Returns a number from 0 up to, but not including, 1."""

DELAY_MS_MAX: Final = 7 * 24 * 3_600_000
FACTOR_MAX: Final = 1_000
TEXT_LENGTH_MAX: Final = 1_000  # in characters, so that a deeply nested value cannot exhaust the stack of the parser


class Growth(StrEnum):
    NONE = "none"
    CONSTANT = "constant"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """How long a record waits before its next delivery, depending on the number of its deliveries."""

    growth: Growth = Growth.NONE
    first_ms: int = 0  # the delay after the first delivery
    step_ms: int = 0  # added to the delay for each further delivery, for linear growth
    factor: float = 2.0  # multiplies the delay for each further delivery, for exponential growth
    max_ms: int = DELAY_MS_MAX
    jitter: float = 0.0  # the largest fraction of the delay, 0 to 1, that is subtracted at random

    def delay_ms(self, delivery_count: int, random: Random) -> int:
        """Return the delay after a record's delivery number `delivery_count`, which is 1 for the first."""
        later = delivery_count - 1
        match self.growth:
            case Growth.NONE:
                return 0
            case Growth.CONSTANT:
                delay = float(self.first_ms)
            case Growth.LINEAR:
                delay = float(self.first_ms + later * self.step_ms)
            case Growth.EXPONENTIAL:
                delay = self.first_ms * self.factor ** min(later, 64)
        return int(min(delay, self.max_ms) * (1 - self.jitter * random()))


NO_BACK_OFF: Final = BackOff()
_KINDS: Final = (Growth.CONSTANT, Growth.LINEAR, Growth.EXPONENTIAL)
_FIELDS: Final[Mapping[Growth, tuple[str, ...]]] = {
    Growth.CONSTANT: ("kind", "first", "max", "jitter"),
    Growth.LINEAR: ("kind", "first", "step", "max", "jitter"),
    Growth.EXPONENTIAL: ("kind", "first", "factor", "max", "jitter"),
}


def parse_back_off(text: str) -> BackOff:
    """
    Return the policy that `text` represents; an empty text is no back-off.

    Raise ValueError, with the requirement as its message, if `text` is not such a policy.
    """
    text = text.strip()
    if not text:
        return NO_BACK_OFF
    fields = _object(text)
    if fields.get("kind") not in _KINDS:
        raise ValueError(f"the field kind must be one of {', '.join(_KINDS)}")
    growth = Growth(fields["kind"])
    if unknown := [name for name in fields if name not in _FIELDS[growth]]:
        raise ValueError(
            f"unknown field {unknown[0]!r}: the fields of kind {growth} are {', '.join(_FIELDS[growth])}; leave it out"
        )
    if "first" not in fields:
        raise ValueError("the field first is missing: give the delay after the first delivery, such as 1s")
    first_ms = _duration_ms(fields, "first", 0)
    return BackOff(
        growth=growth,
        first_ms=first_ms,
        step_ms=_duration_ms(fields, "step", first_ms) if growth == Growth.LINEAR else 0,
        factor=_number(fields, "factor", 2.0, at_least=1, at_most=FACTOR_MAX),
        max_ms=_duration_ms(fields, "max", DELAY_MS_MAX),
        jitter=_number(fields, "jitter", 0.0, at_least=0, at_most=1),
    )


def _object(text: str) -> dict[str, Any]:
    if len(text) > TEXT_LENGTH_MAX:
        raise ValueError(f"must have at most {TEXT_LENGTH_MAX} characters")
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError('must be empty or a JSON object, such as {"kind": "constant", "first": "10s"}')
    return found


def _duration_ms(fields: Mapping[str, Any], name: str, default_ms: int) -> int:
    value = fields.get(name, default_ms)
    if isinstance(value, str):
        value = parse_duration_ms(value)
    if type(value) is not int or not 1 <= value <= DELAY_MS_MAX:
        raise ValueError(
            f"the field {name} must be a duration from 1 ms to 7 days: a whole number of milliseconds, or a text with "
            "a unit, such as 500ms, 10s, 5m, 2h or 1d"
        )
    return value


def _number(fields: Mapping[str, Any], name: str, default: float, *, at_least: float, at_most: float) -> float:
    value = fields.get(name, default)
    if type(value) not in (int, float) or not at_least <= value <= at_most:
        raise ValueError(f"the field {name} must be a number from {at_least} to {at_most}")
    return float(value)
