"""Generates random messages of any API and version, with many values at the limits of encodings."""

from random import Random
from typing import Any

from kio.schema.errors import ErrorCode

from tidemill.wire.primitives import BOOL, Array, Field, Fixed, Opaque, Text
from tidemill.wire.schema import Message

ERROR_CODES = [code.value for code in ErrorCode]
WORDS = ["", "a", "orders", "größe", "x" * 63, "y" * 64, "z" * 65, "ü" * 100, "w" * 127, "v" * 200, "u" * 1_000]


def draw(random: Random, message: type[Message], version: int, *, tagged: float = 0.5) -> Any:
    """
    Return a random message.  `tagged` is the probability that a tagged field is set.

    Fields that the version does not have keep their default, as they do after decoding.
    """
    return message(
        **{
            field.name: _field(random, field, version, tagged) if field.is_in(version) else absent(field)
            for field in message.__fields__
        }
    )


def absent(field: Field) -> Any:
    return None if isinstance(field.kind, type) else field.implicit_default()


def _field(random: Random, field: Field, version: int, tagged: float) -> Any:
    if field.is_tagged_in(version) and random.random() >= tagged:
        return absent(field)
    if field.is_nullable_in(version) and random.random() < 0.3:
        return None
    value = _value(random, field.kind, field.name, version, tagged)
    if field.is_tagged_in(version) and isinstance(value, Message) and value == _blank(type(value)):
        return None  # a tagged struct with only defaults is not sent
    return value


def _blank(message: type[Message]) -> Message:
    return message(**{field.name: field.implicit_default() for field in message.__fields__})


def _value(random: Random, kind: Any, name: str, version: int, tagged: float) -> Any:
    if isinstance(kind, Array):
        count = random.choice([0, 1, 3, 40, 150] if isinstance(kind.element, Fixed) else [0, 1, 1, 2])
        return [_value(random, kind.element, "", version, tagged) for _ in range(count)]
    if isinstance(kind, Text):
        return random.choice(WORDS)
    if isinstance(kind, Opaque):
        return random.randbytes(random.choice([0, 1, 5, 126, 127, 128, 17_000]))
    if isinstance(kind, Fixed):
        return _fixed(random, kind, name)
    return draw(random, kind, version, tagged=tagged)


def _fixed(random: Random, kind: Fixed, name: str) -> Any:
    if kind is BOOL:
        return random.random() < 0.5
    if kind.minimum is None or kind.maximum is None:
        return random.randbytes(16)
    if name.endswith("error_code"):
        return random.choice(ERROR_CODES)
    if kind.size == 8 and "time" in name:  # kio parses times into datetimes: whole seconds, up to the year 9999
        return random.choice([-1, 0, 1_000, 1_700_000_000_000, 253_402_214_400_000])
    return random.choice([kind.minimum, kind.maximum, 0, 1, random.randint(kind.minimum, kind.maximum)])
