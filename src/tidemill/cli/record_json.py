"""A record as JSON: text where bytes are UTF-8, else base64; headers as a list, because names may repeat."""

import base64
import json
from typing import Any, Final

TIMESTAMP_TYPES: Final = {0: None, 1: "CreateTime", 2: "LogAppendTime"}  # as confluent-kafka numbers them


def bytes_as_json(value: bytes | None) -> str | dict[str, str] | None:
    """`"text"`, or `{"base64": "…"}` when it is not UTF-8, or None.  Exact both ways: see `bytes_from_json`."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}


def bytes_from_json(value: object, name: str) -> bytes | None:
    """The inverse; ValueError names `name` when it is neither."""
    match value:
        case None:
            return None
        case str():
            return value.encode()
        case {"base64": str(text), **rest} if not rest:
            try:
                return base64.b64decode(text, validate=True)
            except ValueError as error:
                raise ValueError(f"{name}: {text!r} is not base64 ({error})") from error
        case _:
            raise ValueError(f'{name}: wanted a string, null or {{"base64": "…"}}; got {json.dumps(value)}')


def record_as_json(record: Any) -> dict[str, Any]:
    """A `confluent_kafka.Message` as the object that `consume --format json` prints."""
    timestamp_type, timestamp = record.timestamp()
    return {
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
        "timestamp": timestamp if timestamp_type else None,
        "timestamp_type": TIMESTAMP_TYPES[timestamp_type],
        "key": bytes_as_json(record.key()),
        "value": bytes_as_json(record.value()),
        "headers": [[name, bytes_as_json(value)] for name, value in record.headers() or ()],
    }
