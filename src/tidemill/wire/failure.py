"""Builds responses with UNKNOWN_SERVER_ERROR and no other content, for APIs with a top-level error code."""

from dataclasses import replace

from tidemill.model import errors
from tidemill.wire.primitives import Array, Field, Opaque, Text
from tidemill.wire.schema import Api, Message


def failure_response(api: Api, version: int) -> Message | None:
    """
    Return a response with UNKNOWN_SERVER_ERROR and default values.

    Return None if this version of the response has no top-level error code, or if it has a required nested struct.
    """
    fields = api.response.__fields__
    if not any(field.name == "error_code" and field.is_in(version) for field in fields):
        return None
    if any(isinstance(field.kind, type) and field.is_required for field in fields):
        return None
    values = {field.name: _value(field, version) for field in fields}
    return api.response(**{**values, "error_code": errors.UNKNOWN_SERVER_ERROR})


def _value(field: Field, version: int) -> object:
    """Return the field's default, or an empty value of its type if the default is null but null is not allowed."""
    value = field.implicit_default()
    if value is not None or field.is_nullable_in(version) or not isinstance(field.kind, Text | Opaque | Array):
        return value
    return replace(field, is_required=True).implicit_default()
