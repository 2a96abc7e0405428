"""Declares an option of a pipeline: a field of a dataclass with a help text, and a parser for text."""

import typing
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final, Literal

from tidemill.spark.pipelines.frame.quantity import duration_text, parse_duration, parse_size, size_text

_SETTINGS: Final = "tidemill"
_TEXTS: Final[dict[object, Callable[[Any], str]]] = {parse_size: size_text, parse_duration: duration_text}


@dataclass(frozen=True, slots=True)
class _Settings:
    help: str
    parse: Callable[[str], Any] | None
    metavar: str | None


def option(
    help: str, *, default: Any = MISSING, parse: Callable[[str], Any] | None = None, metavar: str | None = None
) -> Any:
    """
    Return a dataclass field that is an option of a pipeline.

    `help` is one sentence.  `parse` converts text to the field's type, or raises ValueError with the problem and the
    fix, such as "not a size; write for example 128MiB"; the option's name and the text are prepended to this message.
    Without `parse`, the field's type must be str, int, float, bool, Path, an Enum or a Literal of strings; or one of
    these or None; or, for an option that can be repeated, a tuple of one of these.  With `parse`, it may also be a type
    or a Literal of strings, which `parse` returns.  `metavar` is the placeholder for
    the value in help texts.  Without `default`, the option is required.
    """
    return field(default=default, metadata={_SETTINGS: _Settings(help, parse, metavar)})


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a pipeline, for use by commands, functions and help texts."""

    name: str  # the field's name
    type: Any  # of a single value: without `None`, a Literal beside a type, and the tuple of a repeatable option
    help: str
    default: Any  # MISSING if the option is required
    parse: Callable[[str], Any] | None
    metavar: str | None
    is_repeatable: bool

    @property
    def flag(self) -> str:
        """The option's name on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def is_required(self) -> bool:
        return self.default is MISSING

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that an Enum or Literal allows, as text; empty for other types."""
        if typing.get_origin(self.type) is Literal:
            return tuple(map(str, typing.get_args(self.type)))
        if isinstance(self.type, type) and issubclass(self.type, Enum):
            return tuple(str(member.value) for member in self.type)
        return ()

    @property
    def default_text(self) -> str | None:
        """The default value as written on a command line, or None if the option has no default."""
        if self.is_required or self.default is None or self.default == ():
            return None
        values = self.default if self.is_repeatable else (self.default,)
        return ",".join(map(self._text, values))

    def parse_text(self, text: str) -> Any:
        """Parse `text`.  Raise ValueError, which names the option, the text and the fix."""
        try:
            return self._parsed(text)
        except ValueError as error:
            raise ValueError(f"{self.name}={text}: {error}") from error

    def _parsed(self, text: str) -> Any:
        if self.parse is not None:
            return self.parse(text)
        if self.choices:
            if text not in self.choices:
                raise ValueError(f"not known; choose one of {', '.join(self.choices)}")
            return self.type(text) if isinstance(self.type, type) else text
        if self.type is bool:
            if text.lower() not in ("true", "false"):
                raise ValueError("neither true nor false; write one of them")
            return text.lower() == "true"
        try:
            return self.type(text)
        except ValueError:
            raise ValueError(f"not a {'whole number' if self.type is int else 'number'}; write digits") from None

    def _text(self, value: Any) -> str:
        if self.parse in _TEXTS:
            return _TEXTS[self.parse](value)
        if isinstance(value, bool):
            return str(value).lower()
        return str(value.value if isinstance(value, Enum) else value)


def options_of(options: type[Any]) -> tuple[Option, ...]:
    """Return the options that a dataclass declares, in the order of its fields."""
    hints = typing.get_type_hints(options)
    return tuple(_option(it, hints[it.name]) for it in fields(options))


def _option(declared: Field[Any], hint: Any) -> Option:
    settings: _Settings = declared.metadata[_SETTINGS]
    if typing.get_origin(hint) in (UnionType, typing.Union):
        parts = [part for part in typing.get_args(hint) if part is not NoneType]
        (hint,) = [part for part in parts if typing.get_origin(part) is not Literal] or parts
    is_repeatable = typing.get_origin(hint) is tuple
    if is_repeatable:
        hint = typing.get_args(hint)[0]
    return Option(declared.name, hint, settings.help, declared.default, settings.parse, settings.metavar, is_repeatable)
