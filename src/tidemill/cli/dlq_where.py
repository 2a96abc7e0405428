"""
Parses `--where` of `tidemill dlq`: conditions on dead letters, all of which a letter must fulfil.

    where     = condition *("and" condition)
    condition = field operator value
    field     = cause | topic | partition | offset | group | attempts | age | key | header.NAME | value[.POINTER]
    operator  = "=" | "!=" | "<" | "<=" | ">" | ">=" | "~"        ~ means: contains
    value     = a word, or text in ' or ", where \\ precedes a quote or a backslash

NAME and POINTER may be in quotes as well.  Nothing is evaluated as code: a condition compares a field with a constant.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tidemill.cli import json_pointer
from tidemill.cli.letter import Letter
from tidemill.cli.letter_condition import FIELDS, KINDS, Condition, Field, Literal, Operator, as_document, condition

CHARS_MAX: Final = 4_096
_SHOWN_MAX: Final = 40  # an error shows this many characters before and after its position

_SPACE: Final = re.compile(r"\s*")
_NAME: Final = re.compile(r"[^\s\"'=!<>~.]*")
_PART: Final = re.compile(r"(?:~[01]|[^\s\"'=!<>~])+")  # ~0 and ~1 are escapes of JSON pointers, not the operator ~
_OPERATOR: Final = re.compile(r"!=|<=|>=|=|<|>|~")
_WORD: Final = re.compile(r"[^\s\"'=!<>~][^\s\"']*")
_AND: Final = re.compile(r"and(?=\s|$)", re.IGNORECASE)


class WhereError(ValueError):
    """The text is not a condition.  The message shows the text, points at the error and says what is allowed."""

    def __init__(self, text: str, position: int, problem: str) -> None:
        start = max(0, position - _SHOWN_MAX)
        shown = "".join(character if character.isprintable() else "?" for character in text)
        begin, end = "…" if start else "", "…" if len(text) > position + _SHOWN_MAX else ""
        window = f"{begin}{shown[start : position + _SHOWN_MAX]}{end}"
        pointer = " " * (len(begin) + position - start) + "^"
        super().__init__(f"{problem}\n  {window}\n  {pointer}")
        self.position = position  # counted from 0


@dataclass(frozen=True, slots=True)
class Where:
    """Conditions that a letter must fulfil; without any, every letter is selected."""

    conditions: tuple[Condition, ...] = ()

    def selects(self, letter: Letter, now_ms: int) -> bool:
        document: Any = json_pointer.MISSING
        if any(one.field.name == "value" and one.field.part is not None for one in self.conditions):
            document = as_document(letter.value)
        return all(one.selects(letter, document, now_ms) for one in self.conditions)

    def __str__(self) -> str:
        """Return a text from which `parse` returns an equal Where."""
        return " and ".join(f"{_field_text(one.field)} {one.operator} {_literal_text(one)}" for one in self.conditions)


def parse(text: str) -> Where:
    """Raise WhereError if the text is not a list of conditions."""
    if len(text) > CHARS_MAX:
        raise WhereError(text, CHARS_MAX, f"the condition has {len(text)} characters: at most {CHARS_MAX} are allowed")
    return Where(tuple(_Parser(text).conditions()))


class _Parser:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def conditions(self) -> Iterator[Condition]:
        yield self._condition()
        while self._skip_space() < len(self._text):
            if self._take(_AND) is None:
                raise self._error("expected `and` and another condition; there is no `or`, and no parentheses")
            yield self._condition()

    def _condition(self) -> Condition:
        field = self._field()
        at = self._skip_space()
        symbol = self._take(_OPERATOR)
        allowed = f"the operators of {field.name} are {' '.join(field.kind.operators)}"
        if symbol is None:
            raise self._error(f"expected an operator; {allowed}")
        if Operator(symbol) not in field.kind.operators:
            raise self._error(f"{field.name} cannot be compared with {symbol}; {allowed}", at)
        at = self._skip_space()
        literal = self._literal()
        try:
            made = condition(field, Operator(symbol), literal)
        except ValueError as error:
            raise self._error(str(error), at) from error
        if self._position < len(self._text) and not self._text[self._position].isspace():
            raise self._error("expected a space after the value; put the whole value in quotes")
        return made

    def _field(self) -> Field:
        at = self._skip_space()
        name = self._take(_NAME) or ""
        if name not in KINDS:
            problem = f"the field {name!r} is unknown" if name else "expected a field"
            raise self._error(f"{problem}; the fields are {FIELDS}", at)
        if name not in ("header", "value"):
            return Field(name)
        if not self._text.startswith(".", self._position):
            if name == "header":
                raise self._error("expected a dot and the name of a header, for example header.trace-id")
            return Field(name)
        self._position += 1
        at = self._position
        part = self._quoted() if self._text[at : at + 1] in ('"', "'") else self._take(_PART)
        if part is None:
            example = "header.trace-id" if name == "header" else "value./customer/id"
            raise self._error(f"something is missing after {name}., for example {example}", at)
        if name == "value" and (problem_at := json_pointer.problem_of(part)) is not None:
            raise self._error(problem_at[1], at)
        return Field(name, part)

    def _literal(self) -> Literal:
        if self._text[self._position : self._position + 1] in ('"', "'"):
            return Literal(self._quoted(), is_quoted=True)
        word = self._take(_WORD)
        if word is None:
            raise self._error("expected a value; one that is empty or begins with an operator must be in quotes")
        return Literal(word, is_quoted=False)

    def _quoted(self) -> str:
        """Read text in quotes, from its first quote to the one that closes it."""
        opened, quote = self._position, self._text[self._position]
        characters: list[str] = []
        position = opened + 1
        while position < len(self._text) and self._text[position] != quote:
            if self._text[position] == "\\":
                position += 1
                if self._text[position : position + 1] not in ('"', "'", "\\"):
                    raise self._error("a backslash may only precede a quote or another backslash", position - 1)
            characters.append(self._text[position])
            position += 1
        if position >= len(self._text):
            raise self._error(f"the quote {quote} is not closed", opened)
        self._position = position + 1
        return "".join(characters)

    def _skip_space(self) -> int:
        """Skip white space, and return the position."""
        self._take(_SPACE)
        return self._position

    def _take(self, pattern: re.Pattern[str]) -> str | None:
        """Read what matches the pattern; return None, and read nothing, if the text does not go on like that."""
        found = pattern.match(self._text, self._position)
        if found is None:
            return None
        self._position = found.end()
        return found[0]

    def _error(self, problem: str, position: int | None = None) -> WhereError:
        return WhereError(self._text, self._position if position is None else position, problem)


def _field_text(field: Field) -> str:
    if field.part is None:
        return field.name
    return f"{field.name}.{field.part if _PART.fullmatch(field.part) else _quoted_text(field.part)}"


def _literal_text(one: Condition) -> str:
    return _quoted_text(one.literal.text) if one.literal.is_quoted else one.literal.text


def _quoted_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
