"""Decodes the keys, values, headers and times in the broker's JSON: text, or `{"base64": "…"}` for what is not text."""

from base64 import b64decode
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)
_LAST_MS: Final = (_LAST - _EPOCH) // timedelta(milliseconds=1)


def bytes_of(text: Any) -> bytes | None:
    match text:
        case None:
            return None
        case str():
            return text.encode()
    return b64decode(text["base64"])


def headers_of(headers: Iterable[tuple[Any, Any]]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple(((bytes_of(name) or b"").decode(), bytes_of(value)) for name, value in headers)


def time_of(milliseconds: int | None) -> datetime | None:
    """Return a record's timestamp; the end of the year 9999 for a later one, because it must not keep a record back."""
    if milliseconds is None:
        return None
    return _LAST if milliseconds > _LAST_MS else _EPOCH + timedelta(milliseconds=milliseconds)
