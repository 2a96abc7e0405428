"""Random messages of any API and version, and the same messages as kio and kafka-python have them.

Structs are matched by the position of their fields, not by name: kio turns some values into richer types and names them
after those.
"""

import dataclasses
import datetime
import uuid
from random import Random
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.static.primitive import TZAware, i32Timedelta, i64Timedelta

from tidemill.wire.primitives import BOOL, Array, Field, Fixed, Opaque, Text
from tidemill.wire.schema import Api, Message

ERROR_CODES = [code.value for code in ErrorCode]
WORDS = ["", "a", "orders", "größe", "x" * 63, "y" * 64, "z" * 65, "ü" * 100, "w" * 127, "v" * 200, "u" * 20_000]


def draw(random: Random, message: type[Message], version: int) -> Message:
    """Fields that the version does not have keep their default: so does a decoder."""
    return message(
        **{
            field.name: draw_field(random, field, version) if field.is_in(version) else absent(field)
            for field in message.__fields__
        }
    )


def absent(field: Field) -> Any:
    return None if isinstance(field.kind, type) else field.implicit_default()


def draw_field(random: Random, field: Field, version: int) -> Any:
    if field.is_tagged_in(version) and random.random() < 0.5:
        return absent(field)
    if field.is_nullable_in(version) and random.random() < 0.3:
        return None
    value = draw_kind(random, field.kind, field.name, version)
    if field.is_tagged_in(version) and isinstance(value, Message) and value == blank(type(value)):
        return None  # what its absence means is not sent
    return value


def blank(message: type[Message]) -> Message:
    return message(**{field.name: field.implicit_default() for field in message.__fields__})


def draw_kind(random: Random, kind: Any, name: str, version: int) -> Any:
    if isinstance(kind, Array):
        count = random.choice([0, 1, 1, 2, 3]) if isinstance(kind.element, type) else random.choice([0, 1, 3, 40, 150])
        return [draw_kind(random, kind.element, "", version) for _ in range(count)]
    if isinstance(kind, Text):
        return random.choice(WORDS)
    if isinstance(kind, Opaque):
        return random.randbytes(random.choice([0, 1, 5, 126, 127, 128, 20_000]))
    if isinstance(kind, Fixed):
        return draw_fixed(random, kind, name)
    return draw(random, kind, version)


def draw_fixed(random: Random, kind: Fixed, name: str) -> Any:
    if kind is BOOL:
        return random.random() < 0.5
    if kind.minimum is None or kind.maximum is None:
        return random.randbytes(16)
    if name.endswith("error_code"):
        return random.choice(ERROR_CODES)
    if kind.size == 8 and "time" in name:  # kio reads these as points in time, in whole seconds until the year 9999
        return random.choice([-1, 0, 1_000, 1_700_000_000_000, 253_402_214_400_000])
    return random.choice(
        [kind.minimum, kind.maximum, 0, 1, -1 if kind.minimum < 0 else 2, random.randint(0, kind.maximum)]
    )


def kio_schema(api: Api, side: str, version: int) -> Any:
    return (load_request_schema if side == "request" else load_response_schema)(api.key, version)


def as_kio(value: Message, schema: Any, version: int) -> Any:
    ours = [field for field in type(value).__fields__ if field.is_in(version)]
    theirs = dataclasses.fields(schema)
    assert len(ours) == len(theirs), (schema, ours)
    hints = _hints(schema)
    return schema(
        **{
            their.name: _as_kio_value(
                getattr(value, our.name), our, their.metadata.get("kafka_type"), hints[their.name], version
            )
            for our, their in zip(ours, theirs, strict=True)
        }
    )


_HINTS: dict[Any, dict[str, Any]] = {}


def _hints(schema: Any) -> dict[str, Any]:
    import typing

    if schema not in _HINTS:
        _HINTS[schema] = typing.get_type_hints(schema)
    return _HINTS[schema]


def _struct_of(hint: Any) -> Any:
    import typing

    if dataclasses.is_dataclass(hint):
        return hint
    for inner in typing.get_args(hint):
        found = _struct_of(inner)
        if found:
            return found
    return None


def _as_kio_value(value: Any, field: Field, kafka_type: str | None, hint: Any, version: int) -> Any:
    struct = _struct_of(hint)
    if isinstance(field.kind, Array):
        if value is None:
            return None
        if struct:
            return tuple(as_kio(element, struct, version) for element in value)
        return tuple(_scalar(element, kafka_type) for element in value)
    if struct:
        if value is None:
            return None if not field.is_tagged_in(version) else struct()
        return as_kio(value, struct, version)
    return _scalar(value, kafka_type)


def _scalar(value: Any, kafka_type: str | None) -> Any:
    if kafka_type == "error_code":
        return ErrorCode(value)
    if kafka_type == "timedelta_i32":
        return i32Timedelta.parse(datetime.timedelta(milliseconds=value))
    if kafka_type == "timedelta_i64":
        return i64Timedelta.parse(datetime.timedelta(milliseconds=value))
    if kafka_type == "datetime_i64":
        if value == -1:
            return None
        return TZAware.parse(datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(milliseconds=value))
    if kafka_type == "uuid":
        return None if value == bytes(16) else uuid.UUID(bytes=value)
    return value
