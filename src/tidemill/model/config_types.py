"""The types of configuration values (Kafka's `ConfigDef.Type`), and the conversion of values from and to text.

Metadata records, requests and files contain configuration as text.  Code that uses a setting converts its text to a
value once.
"""

import re
from enum import IntEnum
from typing import Final

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1

ConfigValue = bool | int | float | str | tuple[str, ...] | None  # None: the key is not set and has no default

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")  # `int()` alone would also accept `1_000` and digits of other scripts
_DECIMAL_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class ConfigType(IntEnum):
    """The type of a key's values.  The numbers are those used in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


INTEGER_BOUNDS = {
    ConfigType.SHORT: (-(1 << 15), (1 << 15) - 1),
    ConfigType.INT: (-INT_MAX - 1, INT_MAX),
    ConfigType.LONG: (-LONG_MAX - 1, LONG_MAX),
}


def value_of_text(config_type: ConfigType, text: str) -> ConfigValue:
    """
    Return the value that `text` represents.

    Raise ValueError if `text` is not a value of this type.  The message states the requirement, for example "must be
    true or false".
    """
    text = text.strip()
    match config_type:
        case ConfigType.BOOLEAN:
            lowered = text.lower()
            if lowered not in ("true", "false"):
                raise ValueError("must be true or false")
            return lowered == "true"
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            lowest, highest = INTEGER_BOUNDS[config_type]
            if not _WHOLE_NUMBER.fullmatch(text) or len(text) > 20 or not lowest <= int(text) <= highest:
                raise ValueError(f"must be a whole number of type {config_type.name} ({lowest} to {highest})")
            return int(text)
        case ConfigType.DOUBLE:
            if not _DECIMAL_NUMBER.fullmatch(text):
                raise ValueError("must be a decimal number")
            return float(text)
        case ConfigType.LIST:
            return tuple(item.strip() for item in text.split(",")) if text else ()
        case ConfigType.STRING | ConfigType.CLASS | ConfigType.PASSWORD:
            return text


def text_of_value(value: ConfigValue) -> str | None:
    """Return the text form that DescribeConfigs shows; `value_of_text` is the inverse."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return repr(value).replace("e+", "E").replace("e-", "E-")  # Java's notation: 1.7976931348623157E308
    return str(value)
