"""The records that the client sends, and where they were written."""

import reprlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from tidemill.sdk.delays import NOW, Due, timer_headers
from tidemill.sdk.utf8 import utf8

Headers = Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]]


class NewRecord(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None
    timestamp_ms: int | None  # None: the present
    needs_timer_topic: bool = False


class Sent(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    offset: int


def new_record(
    topic: str,
    value: object,
    *,
    key: str | bytes | None,
    headers: Headers,
    partition: int | None,
    timestamp: datetime | None,
    due: Due = NOW,
) -> NewRecord:
    """
    Return a record.  Its value is bytes or text as they are, or any other value as JSON; None is no value.

    Raise TypeError for a value that JSON cannot represent, and ValueError for text that UTF-8 cannot represent, for a
    time without a time zone, and for a delay, an id or a schedule that is not valid, or an id whose partition would be
    left to chance.
    """
    if timestamp is not None and timestamp.tzinfo is None:
        raise ValueError(f"timestamp={timestamp!r}: give its time zone, such as tzinfo=datetime.UTC")
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        encoded = encoded_value(value)
    except TypeError as error:
        raise TypeError(f"value={value!r} for topic {topic}: it is no bytes, text or JSON value: {error}") from error
    except UnicodeEncodeError as error:
        shown = f"value={reprlib.repr(value)} for topic {topic}"
        raise ValueError(f"{shown}: use text that UTF-8 can represent: {error}") from error
    timer = [*timer_headers(due)]
    if due.timer_id is not None and key is None and partition is None:
        raise ValueError(
            f"timer_id={due.timer_id!r} without key: it names a timer of one partition, and a record without a key "
            "goes to any of them: give the same key each time, or a partition"
        )
    return NewRecord(
        topic,
        _content(f"key={key!r}", key),
        encoded,
        [*((_name(name), _content(f"headers: {name}={content!r}", content)) for name, content in pairs), *timer],
        partition,
        None if timestamp is None else round(timestamp.timestamp() * 1_000),
        needs_timer_topic=bool(timer),
    )


def encoded_value(value: object) -> bytes | None:
    match value:
        case None | bytes():
            return value
        case str():
            return value.encode()
        case bytearray() | memoryview():
            return bytes(value)
    return msgspec.json.encode(value)


def _name(name: object) -> str:
    """Return the name of a header.  Raise TypeError or ValueError: librdkafka would crash, or cut it off."""
    if not isinstance(name, str):
        raise TypeError(f"headers: the name {name!r}: use text")
    utf8(f"headers: the name {name!r}", name)
    if "\0" in name:
        raise ValueError(f"headers: the name {name!r}: leave out the NUL, at which librdkafka ends a name")
    return name


def _content(shown: str, content: str | bytes | None) -> bytes | None:
    """Return a key or a header as bytes.  Raise TypeError or ValueError, with the argument that is shown."""
    match content:
        case None | bytes():
            return content
        case str():
            return utf8(shown, content)
    raise TypeError(f"{shown}: use text or bytes")
