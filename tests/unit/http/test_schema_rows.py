"""JSON schemas, described in rows."""

from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from tidemill.http.v1.schema_rows import Row, rows


class Inner(msgspec.Struct):
    number: Annotated[int, Meta(ge=1, le=9)] = 5


class Outer(msgspec.Struct):
    kind: Literal["a", "b"]
    pair: tuple[str, Inner | None]
    many: Annotated[dict[str, Inner], Meta(min_length=1, description="By name.")] = {}
    text: Annotated[str, Meta(max_length=7)] | None = None
    anything: msgspec.Raw | None = None


EXPECTED = [
    Row(0, "kind", '"a" or "b"', True, ""),
    Row(0, "pair", "[string, object or null]", True, ""),
    Row(1, "number", "integer", False, "1 to 9. Default: 5."),
    Row(0, "many", "object of object", False, "By name. Not empty."),
    Row(1, "number", "integer", False, "1 to 9. Default: 5."),
    Row(0, "text", "string or null", False, "At most 7 characters."),
    Row(0, "anything", "any JSON or null", False, ""),
]


def test_fields_and_their_own_fields_are_listed() -> None:
    (schema,), schemas = msgspec.json.schema_components([Outer])

    assert EXPECTED == list(rows(schema, schemas))


@pytest.mark.parametrize("bound", [1 << 31, (1 << 63) - 1])
def test_the_maximum_of_a_type_is_not_shown(bound: int) -> None:
    schema = {"$ref": "#/x/T"}
    schemas = {"T": {"properties": {"n": {"type": "integer", "minimum": 0, "maximum": bound}}}}

    assert [Row(0, "n", "integer", False, "At least 0.")] == list(rows(schema, schemas))
