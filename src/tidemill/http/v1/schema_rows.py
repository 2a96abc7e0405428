"""Describes a JSON schema of the OpenAPI document in rows: the fields of an object, and below each its own fields."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

Schema = Mapping[str, Any]
Schemas = Mapping[str, Schema]
"""The named schemas of the document, to which others refer."""


MOST_SHOWN: Final = (1 << 31) - 1  # greater maxima are those of the type, and not worth showing
_BOUNDS: Final = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
    ("minProperties", "maxProperties", " fields"),
)


class Row(NamedTuple):
    depth: int
    name: str
    type: str
    is_required: bool
    notes: str


def rows(schema: Schema, schemas: Schemas, depth: int = 0, within: Sequence[str] = ()) -> Iterator[Row]:
    """Yield the fields of a schema.  A type that contains itself is described once."""
    for name, described in objects(schema, schemas):
        if name in within:
            continue
        required = described.get("required", ())
        for field, one in described.get("properties", {}).items():
            yield Row(depth, field, type_of(one), field in required, notes_of(one))
            yield from rows(one, schemas, depth + 1, (*within, name))


def objects(schema: Schema, schemas: Schemas) -> Iterator[tuple[str, Schema]]:
    """Yield the named objects that a schema consists of, with their names."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield name, schemas[name]
    parts = [*schema.get("anyOf", ()), *schema.get("prefixItems", ())]
    parts += [it for it in (schema.get("items"), schema.get("additionalProperties")) if isinstance(it, Mapping)]
    for part in parts:
        yield from objects(part, schemas)


def type_of(schema: Schema) -> str:
    """Return a type in words, such as `list of integer`."""
    if "$ref" in schema:
        return "object"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(type_of(it) for it in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(json.dumps(it) for it in schema["enum"])
    if "prefixItems" in schema:
        return f"[{', '.join(type_of(it) for it in schema['prefixItems'])}]"
    if schema.get("type") == "array":
        return f"list of {type_of(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {type_of(schema['additionalProperties'])}"
    return str(schema.get("type", "any JSON"))


def notes_of(schema: Schema) -> str:
    """Return the description, the bounds and the default."""
    parts = [it for it in (schema, *schema.get("anyOf", ())) if "$ref" not in it and "prefixItems" not in it]
    notes = [it["description"] for it in parts if "description" in it]
    notes += [_bounds(it, *keys) for it in parts for keys in _BOUNDS if keys[0] in it or keys[1] in it]
    if schema.get("default") not in (None, "", [], {}):
        notes.append(f"Default: {json.dumps(schema['default'])}.")
    return " ".join(notes)


def _bounds(schema: Schema, least_key: str, most_key: str, unit: str) -> str:
    least, most = schema.get(least_key), schema.get(most_key)
    if most is None or most >= MOST_SHOWN:
        return "Not empty." if unit and least == 1 else f"At least {least}{unit}."
    return f"At most {most}{unit}." if least is None else f"{least} to {most}{unit}."
