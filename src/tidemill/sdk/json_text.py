"""Decodes the keys, values and headers in the broker's JSON: text, or `{"base64": "…"}` for what is not text."""

from base64 import b64decode
from collections.abc import Iterable
from typing import Any


def bytes_of(text: Any) -> bytes | None:
    match text:
        case None:
            return None
        case str():
            return text.encode()
    return b64decode(text["base64"])


def headers_of(headers: Iterable[tuple[Any, Any]]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple(((bytes_of(name) or b"").decode(), bytes_of(value)) for name, value in headers)
