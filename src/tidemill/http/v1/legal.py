"""What a client may write instead of a name or a value of a query or a body that msgspec does not accept."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import inspect

_UNKNOWN: Final = "Object contains unknown field "  # so msgspec's messages begin
_NOT_LISTED: Final = "Invalid enum value "  # likewise
_WHERE: Final = re.compile(r" - at `\$([^`]*)`$")  # so they end
_STEP: Final = re.compile(r"\.(\w+)|\[")


def legal(fields: type[msgspec.Struct], error: msgspec.ValidationError) -> str:
    """
    Return the names that there are if an error is about an unknown one, the values if it is about one of a few, and
    else nothing.
    """
    text = str(error)
    is_name = text.startswith(_UNKNOWN)
    if not is_name and not text.startswith(_NOT_LISTED):
        return ""
    where = _WHERE.search(text)
    found = [*_alternatives([inspect.type_info(fields)])]
    for step in _STEP.finditer("" if where is None else where[1]):
        found = [*_alternatives(inner for it in found for inner in _inside(it, step[1]))]
    if is_name:
        names = [field.encode_name for it in found if isinstance(it, inspect.StructType) for field in it.fields]
        return f"; the names are {', '.join(names)}" if names else ""
    values = [str(value) for it in found if isinstance(it, inspect.LiteralType) for value in it.values]
    return f"; use {', '.join(values[:-1])} or {values[-1]}" if len(values) > 1 else ""


def _alternatives(types: Iterable[inspect.Type]) -> Iterator[inspect.Type]:
    """Yield the members of unions, and other types, without their descriptions."""
    for it in types:
        if isinstance(it, inspect.Metadata):
            yield from _alternatives((it.type,))
        elif isinstance(it, inspect.UnionType):
            yield from _alternatives(it.types)
        else:
            yield it


def _inside(outer: inspect.Type, name: str | None) -> Iterator[inspect.Type]:
    """Yield the types of a field with this name, or of an item if it is None."""
    if isinstance(outer, inspect.StructType):
        yield from (field.type for field in outer.fields if field.encode_name == name)
    elif isinstance(outer, inspect.ListType) and name is None:
        yield outer.item_type
    elif isinstance(outer, inspect.TupleType) and name is None:
        yield from outer.item_types
