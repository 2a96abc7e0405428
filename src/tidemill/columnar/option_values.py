"""Parses the values of options.  Spark passes option names in lower case; errors show the documented spelling."""

import difflib
import logging
import re
from collections.abc import Mapping
from typing import Final

_LOG = logging.getLogger(__name__)
_KAFKA: Final = "kafka."
_SIZE_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TIME_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def kafka_keys(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that start with `kafka.`, without this prefix."""
    return {name.removeprefix(_KAFKA): value for name, value in options.items() if name.startswith(_KAFKA)}


def warn_of_unknown(options: Mapping[str, str], known: Mapping[str, str]) -> None:
    """
    Log a warning for each option that is not in `known`, which maps lower-case names to the documented spelling.

    Unknown options are ignored, as in Spark's source.
    """
    for name in options:
        if name in known or name.startswith(_KAFKA):
            continue
        near = difflib.get_close_matches(name, known, n=1)
        _LOG.warning("option %s is ignored%s", name, f": did you mean {known[near[0]]}?" if near else "")


def truth(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return the boolean value of the option `name`.  Raise ValueError if it is neither true nor false."""
    value = options.get(name.lower())
    if value is None:
        return default
    if str(value).strip().lower() not in ("true", "false"):
        raise ValueError(f"{name}={value} must be true or false")
    return str(value).strip().lower() == "true"


def positive(options: Mapping[str, str], name: str) -> int | None:
    """
    Return the option `name` as an integer; None if it is not set.

    Raise ValueError if it is not a positive integer.
    """
    value = options.get(name.lower())
    if value is None:
        return None
    if not str(value).strip().isdecimal() or int(value) == 0:
        raise ValueError(f"{name} must be positive, got {value}")
    return int(value)


def duration_ms(options: Mapping[str, str], name: str, *, default_ms: int) -> int:
    """Parse a duration in Spark's notation: `15m`, `90s`, `500ms`; a number without a unit is in milliseconds."""
    value = options.get(name.lower())
    if value is None:
        return default_ms
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", value.strip().lower())
    unit = (match.group(2) or "ms") if match else ""
    if match is None or unit not in _TIME_UNITS_MS:
        raise ValueError(f"{name}={value} is not a duration: write e.g. 500ms, 90s, 15m, 2h or 1d")
    return int(match.group(1)) * _TIME_UNITS_MS[unit]


def size_bytes(options: Mapping[str, str], name: str) -> int | None:
    """Parse a size in Spark's notation: `64m`, `1gb`; a number without a unit is in bytes.  None if it is not set."""
    value = options.get(name.lower())
    if value is None:
        return None
    match = re.fullmatch(r"(\d+)\s*(?:([kmgt])b?|b?)", value.strip().lower())
    if match is None or int(match.group(1)) == 0:
        raise ValueError(f"{name}={value} is not a size: write e.g. 1048576, 64m or 1g")
    return int(match.group(1)) * _SIZE_UNITS[match.group(2) or ""]
