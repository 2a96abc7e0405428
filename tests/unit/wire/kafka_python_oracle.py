"""Encodes messages with kafka-python, which omits tagged fields in nested structs: use messages without tags."""

import importlib
import pkgutil
import uuid
import warnings
from functools import cache
from typing import Any

from tidemill.wire.primitives import UUID, Array, Field
from tidemill.wire.schema import Api, Message


def knows(api: Api) -> bool:
    """Return whether kafka-python has the messages of `api`."""
    return (api.key, "request") in _classes()


def written(api: Api, side: str, version: int, message: Message) -> bytes:
    """Return the body of `message` as encoded by kafka-python."""
    schema = _classes()[api.key, side]._struct
    is_flexible = version >= api.flexible_from
    values = _struct(message, schema, version)
    encoded: bytes = schema.encode(values, version=version, compact=is_flexible, tagged=is_flexible)
    return encoded


@cache
def _classes() -> dict[tuple[int, str], Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import kafka.protocol
        from kafka.protocol.api_message import ApiMessage

        for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
            if ".old" not in module.name and "generate" not in module.name:
                importlib.import_module(module.name)
    return {(found.API_KEY, found.type): found for found in ApiMessage.__subclasses__() if found.type}


def _struct(value: Message, schema: Any, version: int) -> dict[str, Any]:
    theirs = [field for field in schema.fields.values() if field.for_version_q(version)]
    ours = [field for field in type(value).__fields__ if field.is_in(version)]
    return {
        their.name: _field(getattr(value, our.name), our, their, version)
        for our, their in zip(ours, theirs, strict=True)
        if not our.is_tagged_in(version)
    }


def _field(value: Any, field: Field, schema: Any, version: int) -> Any:
    kind = field.kind.element if isinstance(field.kind, Array) else field.kind
    if value is None:
        return None
    if isinstance(kind, type):
        if isinstance(field.kind, Array):
            return [_struct(element, schema, version) for element in value]
        return _struct(value, schema, version)
    # In kafka-python, some fields with authorized operations are sets of bits.
    if getattr(getattr(schema, "_type", None), "__name__", "") == "BitField":
        return {bit for bit in range(32) if value >> bit & 1}
    return uuid.UUID(bytes=value) if kind is UUID else value
