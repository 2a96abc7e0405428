"""Compiles the function that collects the error codes of a response.

The function visits every `error_code` of the response and of its nested structs.  The broker calls the function for
each response, including Produce and Fetch, so it must be fast: its code is generated from the fields, like that of
encoders.
"""

from collections.abc import Callable
from typing import Any, Final

from tidemill.wire.primitives import Array, Field
from tidemill.wire.source import Source

ErrorFinder = Callable[[Any], list[int]]

_ERROR_CODE: Final = "error_code"


def compile_error_finder(fields: tuple[Field, ...]) -> ErrorFinder:
    """Return a function that takes a response with these fields and returns the error codes that are not 0."""
    source = Source()
    with source.block("def errors_in(response):"):
        source.line("found = []")
        _visit(source, fields, "response")
        source.line("return found")
    finder: ErrorFinder = source.function("errors_in")
    return finder


def _visit(source: Source, fields: tuple[Field, ...], value: str) -> None:
    for field in fields:
        kind = field.kind
        if field.name == _ERROR_CODE:
            with source.block(f"if {value}.{_ERROR_CODE}:"):
                source.line(f"found.append({value}.{_ERROR_CODE})")
        elif isinstance(kind, Array) and _has_error_code(kind.element):
            element = source.fresh("element")
            with source.block(f"for {element} in {value}.{field.name} or ():"):
                _visit(source, kind.element.__fields__, element)  # type: ignore[union-attr]
        elif _has_error_code(kind):
            nested = source.fresh("nested")
            source.line(f"{nested} = {value}.{field.name}")
            with source.block(f"if {nested} is not None:"):
                _visit(source, kind.__fields__, nested)  # type: ignore[union-attr]


def _has_error_code(kind: object) -> bool:
    if isinstance(kind, Array):
        return _has_error_code(kind.element)
    fields: tuple[Field, ...] = getattr(kind, "__fields__", ())
    return any(field.name == _ERROR_CODE or _has_error_code(field.kind) for field in fields)
