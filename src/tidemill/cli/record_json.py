"""Records as JSON.

Bytes are represented as text if they are UTF-8, otherwise as base64.  Headers are a list, because names may repeat.
"""

import base64
import json
from typing import Any, Final

from tidemill.batches.records import Record

LOG_APPEND_TIME: Final = 2  # confluent-kafka's number of this timestamp type; 0 is none


def bytes_as_json(value: bytes | None) -> str | dict[str, str] | None:
    """
    Return `value` as a string if it is UTF-8, None if it is None, and otherwise as `{"base64": "…"}`.

    `bytes_from_json` is the exact inverse.
    """
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}


def bytes_from_json(value: object, name: str) -> bytes | None:
    """Return the bytes that `value` represents; the inverse of `bytes_as_json`.

    Raise ValueError for any other value; the message names the field `name`.
    """
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
            raise ValueError(f'{name}: expected a string, null or {{"base64": "…"}}, got {json.dumps(value)}')


def record_as_json(record: Any) -> dict[str, Any]:
    """Return a `confluent_kafka.Message` as the object that `consume --format json` prints."""
    timestamp_type, timestamp = record.timestamp()
    plain = Record(
        record.key(), record.value(), record.headers() or (), timestamp if timestamp_type else -1, record.offset()
    )
    return row_as_json(record.topic(), record.partition(), plain, is_log_append_time=timestamp_type == LOG_APPEND_TIME)


def row_as_json(topic: str, partition: int, record: Record, *, is_log_append_time: bool) -> dict[str, Any]:
    """Return a record of Tidemill's own client as the same object."""
    has_timestamp = record.timestamp >= 0
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp if has_timestamp else None,
        "timestamp_type": ("LogAppendTime" if is_log_append_time else "CreateTime") if has_timestamp else None,
        "key": bytes_as_json(record.key),
        "value": bytes_as_json(record.value),
        "headers": [[name, bytes_as_json(value)] for name, value in record.headers],
    }
