"""Parses a line of stdin as a record: text, JSON or base64."""

import base64
import json
from typing import Any, Final

from tidemill.cli.record_json import bytes_from_json

_FIELDS: Final = frozenset({"key", "value", "headers", "timestamp"})
_IGNORED_FIELDS: Final = frozenset({"topic", "partition", "offset", "timestamp_type"})  # in the output of `consume`


def record_of_line(line: bytes, format_: str, key_separator: bytes | None) -> dict[str, Any]:
    """Return the arguments for `Producer.produce`.  Raise a ValueError that names the problem and the fix."""
    match format_:
        case "text":
            return _from_text(line, key_separator)
        case "base64":
            return {"value": _from_base64(line)}
        case "json":
            return _from_json(line)
        case _:
            raise AssertionError(format_)


def _from_base64(line: bytes) -> bytes:
    try:
        return base64.b64decode(line, validate=True)
    except ValueError as error:
        raise ValueError(f"{line[:80]!r} is not base64 ({error}); --format text accepts any line") from error


def _from_text(line: bytes, key_separator: bytes | None) -> dict[str, Any]:
    if key_separator is None:
        return {"value": line}
    key, found, value = line.partition(key_separator)
    if not found:
        raise ValueError(
            f"no key separator {key_separator.decode()!r} in {line[:80]!r}; --format json allows null keys"
        )
    return {"key": key, "value": value}


def _from_json(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{line[:80]!r} is not JSON ({error}); --format text accepts any line") from error
    if not isinstance(fields, dict):
        raise ValueError('expected an object such as {"key": "k", "value": "v"}; --format text accepts any line')
    if unknown := sorted(fields.keys() - _FIELDS - _IGNORED_FIELDS):
        raise ValueError(f"unknown field {unknown[0]!r}; the fields are {', '.join(sorted(_FIELDS))}")
    record: dict[str, Any] = {
        "key": bytes_from_json(fields.get("key"), "key"),
        "value": bytes_from_json(fields.get("value"), "value"),
        "headers": _headers(fields.get("headers")),
    }
    timestamp = fields.get("timestamp")
    if timestamp is not None:
        if not isinstance(timestamp, int) or isinstance(timestamp, bool) or timestamp < 0:
            raise ValueError(f"timestamp: expected milliseconds since 1970, got {json.dumps(timestamp)}")
        record["timestamp"] = timestamp
    return record


def _headers(listed: object) -> list[tuple[str, bytes | None]]:
    if listed is None:
        return []
    if not isinstance(listed, list):
        raise ValueError(f"headers: expected a list of [name, value], got {json.dumps(listed)}")
    headers = []
    for pair in listed:
        match pair:
            case [str(name), value]:
                headers.append((name, bytes_from_json(value, f"header {name!r}")))
            case _:
                raise ValueError(f"headers: expected [name, value], got {json.dumps(pair)}")
    return headers
