"""JSON pointers (RFC 6901): /customer/id, /items/0/price."""

import re
from typing import Any, Final

MISSING: Final = object()
"""The result for a document without the value that a pointer names.  It differs from every JSON value."""

_AN_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_A_BAD_ESCAPE: Final = re.compile(r"~(?![01])")


def problem_of(pointer: str) -> tuple[int, str] | None:
    """Return the position and the description of the first error in a pointer, or None if it is valid."""
    if pointer and not pointer.startswith("/"):
        return 0, "a JSON pointer begins with /, for example /customer/id"
    bad = _A_BAD_ESCAPE.search(pointer)
    if bad is not None:
        return bad.start(), "in a JSON pointer, ~0 means ~, and ~1 means /; no other character may follow ~"
    return None


def resolve(pointer: str, document: Any) -> Any:
    """Return the part of a document that a valid pointer names, or MISSING."""
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document.get(name, MISSING)
        elif isinstance(document, list) and _AN_INDEX.fullmatch(name) and int(name) < len(document):
            document = document[int(name)]
        else:
            return MISSING
        if document is MISSING:
            return MISSING
    return document
