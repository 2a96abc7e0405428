"""Converts messages to kio's types and encodes them with kio.

Fields are matched by position, not by name: kio turns some values into richer types and renames those fields.
"""

import dataclasses
import datetime
import io
import typing
import uuid
from functools import cache
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.primitive import TZAware, i32Timedelta, i64Timedelta

from tidemill.wire.primitives import Array, Field
from tidemill.wire.schema import Api, Message

EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)


def written(api: Api, side: str, version: int, message: Message) -> bytes:
    """Return the body of `message` as encoded by kio."""
    schema, write = _schema(api.key, side, version)
    buffer = io.BytesIO()
    write(buffer, _struct(message, schema, version))
    return buffer.getvalue()


@cache
def _schema(key: int, side: str, version: int) -> tuple[Any, Any]:
    schema = (load_request_schema if side == "request" else load_response_schema)(key, version)
    return schema, entity_writer(schema)


_hints = cache(typing.get_type_hints)


def _struct(value: Message, schema: Any, version: int) -> Any:
    ours = [field for field in type(value).__fields__ if field.is_in(version)]
    theirs = dataclasses.fields(schema)
    return schema(
        **{
            their.name: _field(
                getattr(value, our.name), our, their.metadata.get("kafka_type"), _hints(schema)[their.name], version
            )
            for our, their in zip(ours, theirs, strict=True)
        }
    )


def _field(value: Any, field: Field, kafka_type: str | None, hint: Any, version: int) -> Any:
    struct = _nested(hint)
    if isinstance(field.kind, Array):
        if value is None:
            return None
        return tuple(_struct(element, struct, version) if struct else _scalar(element, kafka_type) for element in value)
    if not struct:
        return _scalar(value, kafka_type)
    if value is None:
        return struct() if field.is_tagged_in(version) else None
    return _struct(value, struct, version)


def _nested(hint: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return hint
    return next((found for inner in typing.get_args(hint) if (found := _nested(inner))), None)


def _scalar(value: Any, kafka_type: str | None) -> Any:
    match kafka_type:
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32":
            return i32Timedelta.parse(datetime.timedelta(milliseconds=value))
        case "timedelta_i64":
            return i64Timedelta.parse(datetime.timedelta(milliseconds=value))
        case "datetime_i64":
            return None if value == -1 else TZAware.parse(EPOCH + datetime.timedelta(milliseconds=value))
        case "uuid":
            return None if value == bytes(16) else uuid.UUID(bytes=value)
        case _:
            return value
