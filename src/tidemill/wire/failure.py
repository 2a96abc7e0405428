"""The answer that says only that the broker failed, for the APIs whose response has one place to say so."""

from dataclasses import replace

from tidemill.model import errors
from tidemill.wire.primitives import Array, Field, Opaque, Text
from tidemill.wire.schema import Api, Message


def failure_response(api: Api, version: int) -> Message | None:
    """UNKNOWN_SERVER_ERROR and nothing else; None where each part of the response has a code of its own."""
    fields = api.response.__fields__
    if not any(field.name == "error_code" and field.is_in(version) for field in fields):
        return None
    if any(isinstance(field.kind, type) and field.is_required for field in fields):
        return None
    values = {field.name: _value(field, version) for field in fields}
    return api.response(**{**values, "error_code": errors.UNKNOWN_SERVER_ERROR})


def _value(field: Field, version: int) -> object:
    """The field's default; where that is null and this version knows no null, nothing of its kind."""
    value = field.implicit_default()
    if value is not None or field.is_nullable_in(version) or not isinstance(field.kind, Text | Opaque | Array):
        return value
    return replace(field, is_required=True).implicit_default()
