"""Builds the options of a pipeline from the arguments of a function or a command."""

import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

from tidemill.spark.pipelines.frame.option import Option, options_of

Values = TypeVar("Values")


def build(options: type[Values], values: Mapping[str, object]) -> Values:
    """
    Return the options with `values`.  Text is parsed, unless the option's type is text.

    Raise ValueError for an unknown name, a missing required option, or a value that the option refuses, and TypeError
    for a value of the wrong type.
    """
    known = {it.name: it for it in options_of(options)}
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(known)}"
            raise ValueError(f"option {name} is unknown: {hint}")
    missing = [name for name, it in known.items() if it.is_required and values.get(name) is None]
    if missing:
        raise ValueError(f"option {missing[0]} is missing: {known[missing[0]].help}")
    return options(**{name: _value(known[name], value) for name, value in values.items()})


def _value(option: Option, value: Any) -> Any:
    if not option.is_repeatable:
        return _one(option, value)
    several = value if isinstance(value, list | tuple) else (value,)
    return tuple(_one(option, it) for it in several)


def _one(option: Option, value: Any) -> Any:
    if isinstance(value, str) and (option.parse is not None or option.type is not str):
        return option.parse_text(value)
    if option.choices and option.parse is None and not isinstance(option.type, type):
        return option.parse_text(str(value))  # the option's type is a Literal: check its choices
    if value is None or not isinstance(option.type, type):
        return value
    expected: tuple[type, ...] = (int, float) if option.type is float else (option.type,)
    if not isinstance(value, expected) or (isinstance(value, bool) and option.type is not bool):
        raise TypeError(
            f"{option.name}={value!r} is a {type(value).__name__}: pass a {option.type.__name__}, or its text"
        )
    return value
