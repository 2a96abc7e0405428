"""One condition on dead letters: a field, an operator and a value."""

import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Final, NamedTuple

from tidemill.cli import json_pointer
from tidemill.cli.argument_bytes import argument_bytes
from tidemill.cli.letter import Letter
from tidemill.model.letter_origin import Cause

_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_A_DURATION: Final = re.compile(r"([0-9]{1,9})([smhd])")
_AN_INTEGER: Final = re.compile(r"-?[0-9]{1,300}")
_A_NUMBER: Final = re.compile(r"-?[0-9]{1,300}(\.[0-9]{1,300})?([eE][+-]?[0-9]{1,3})?")
_JSON_WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None}


class Operator(StrEnum):
    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    CONTAINS = "~"


_ORDER: Final[Mapping[Operator, Callable[[Any, Any], bool]]] = {
    Operator.LESS: operator.lt,
    Operator.AT_MOST: operator.le,
    Operator.GREATER: operator.gt,
    Operator.AT_LEAST: operator.ge,
}
_EQUALITY: Final = (Operator.EQUAL, Operator.NOT_EQUAL)


class Kind(Enum):
    """What the values of a field are."""

    CAUSE = "cause"
    INTEGER = "integer"
    AGE = "age"
    TEXT = "text"
    JSON = "JSON"

    @property
    def operators(self) -> tuple[Operator, ...]:
        return _OPERATORS[self]


_OPERATORS: Final[Mapping[Kind, tuple[Operator, ...]]] = {
    Kind.CAUSE: _EQUALITY,
    Kind.INTEGER: (*_EQUALITY, *_ORDER),
    Kind.AGE: tuple(_ORDER),
    Kind.TEXT: tuple(Operator),
    Kind.JSON: tuple(Operator),
}


class Field(NamedTuple):
    """A field of a letter: its name, and for `header` and `value` which header or which part of the value."""

    name: str
    part: str | None = None  # the name of a header, or a JSON pointer into the value; None: the whole value

    @property
    def kind(self) -> Kind:
        return Kind.JSON if self.name == "value" and self.part is not None else KINDS[self.name]


KINDS: Final[Mapping[str, Kind]] = {
    "cause": Kind.CAUSE,
    "topic": Kind.TEXT,
    "partition": Kind.INTEGER,
    "offset": Kind.INTEGER,
    "group": Kind.TEXT,
    "attempts": Kind.INTEGER,
    "age": Kind.AGE,
    "key": Kind.TEXT,
    "header": Kind.TEXT,
    "value": Kind.TEXT,
}
FIELDS: Final = "cause, topic, partition, offset, group, attempts, age, key, header.NAME, value or value.JSON-pointer"


class Literal(NamedTuple):
    """A value as written in a condition."""

    text: str
    is_quoted: bool


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a field with a value.

    `operand` has the type that the comparison needs: Cause for `cause`, an integer (milliseconds for `age`), bytes or a
    number for text, and any JSON value for a part of the record's value.
    """

    field: Field
    operator: Operator
    literal: Literal
    operand: Any

    def selects(self, letter: Letter, document: Any, now_ms: int) -> bool:
        """
        Return whether the letter fulfils the condition.  `document` is its value as JSON, or MISSING.

        A header that is repeated fulfils a condition if one of its values does.  `!=` is the opposite of `=`, also for
        a field that the letter does not have; every other condition needs the field.
        """
        values = _values(self.field, letter, document, now_ms)
        if self.operator is Operator.NOT_EQUAL:
            return not any(_fulfils(value, Operator.EQUAL, self.operand) for value in values)
        return any(_fulfils(value, self.operator, self.operand) for value in values)


def condition(field: Field, operator: Operator, literal: Literal) -> Condition:
    """Return the condition.  Raise ValueError with a description if the value does not fit to field and operator."""
    return Condition(field, operator, literal, _operand(field.kind, operator, literal))


def as_document(value: bytes | None) -> Any:
    """Return a record's value as JSON, or MISSING if it is not JSON."""
    if value is None:
        return json_pointer.MISSING
    try:
        return json.loads(value)
    except (ValueError, RecursionError):  # RecursionError: nested too deeply
        return json_pointer.MISSING


def _operand(kind: Kind, operator: Operator, literal: Literal) -> Any:
    text = literal.text
    match kind:
        case Kind.CAUSE:
            if text not in set(Cause):
                raise ValueError(f"a cause is {', '.join(Cause)}")
            return Cause(text)
        case Kind.INTEGER:
            if not _AN_INTEGER.fullmatch(text):
                raise ValueError("expected a whole number, for example 42")
            return int(text)
        case Kind.AGE:
            duration = _A_DURATION.fullmatch(text)
            if duration is None:
                raise ValueError("an age is a number with the unit s, m, h or d, for example 5m, 2h or 7d")
            return int(duration[1]) * _UNIT_MS[duration[2]]
    if operator in _ORDER and not literal.is_quoted:
        number = _number(text)
        if number is None:
            raise ValueError(f"{operator} compares numbers, or text in quotes: expected a number, or '{text}'")
        return number
    try:
        encoded = argument_bytes(text)
    except UnicodeEncodeError as error:
        raise ValueError("the text has a character that UTF-8 cannot represent") from error
    if kind is Kind.TEXT:
        return encoded
    if operator in _EQUALITY and not literal.is_quoted:
        if text in _JSON_WORDS:
            return _JSON_WORDS[text]
        number = _number(text)
        return text if number is None else number
    return text


def _number(text: str) -> int | float | None:
    if not _A_NUMBER.fullmatch(text):
        return None
    return int(text) if _AN_INTEGER.fullmatch(text) else float(text)


def _values(field: Field, letter: Letter, document: Any, now_ms: int) -> Iterator[Any]:
    """Yield the values of a field that a letter has: text as bytes, and everything else as its type."""
    match field.name:
        case "header":
            yield from (value for name, value in letter.headers if name == field.part and value is not None)
            return
        case "value" if field.part is not None:
            found = json_pointer.MISSING
            if document is not json_pointer.MISSING:
                found = json_pointer.resolve(field.part, document)
            if found is not json_pointer.MISSING:
                yield found
            return
        case "age":
            value: Any = letter.age_ms(now_ms)
        case "key" | "value":
            value = getattr(letter, field.name)
        case _:
            value = getattr(letter.origin, field.name)
    if value is not None:
        yield value.encode() if field.kind is Kind.TEXT and isinstance(value, str) else value


def _fulfils(value: Any, operator: Operator, operand: Any) -> bool:
    """Return whether a value fulfils a condition other than NOT_EQUAL.  Values of different types are never equal."""
    if isinstance(value, bytes) and _is_number(operand):
        number = _number(value.decode("ascii", "replace").strip())
        if number is None:
            return False
        value = number
    is_comparable = type(value) is type(operand) or (_is_number(value) and _is_number(operand))
    if not is_comparable or (isinstance(value, float) and math.isnan(value)):
        return False
    if operator is Operator.EQUAL:
        return bool(value == operand)
    if operator is Operator.CONTAINS:
        return isinstance(value, str | bytes) and operand in value
    return _ORDER[operator](value, operand)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
