"""Records of responses, and their keys, values and headers in JSON: text if they are UTF-8, and base64 otherwise."""

from base64 import b64encode
from collections.abc import Iterable

import msgspec

from tidemill.batches.records import Record
from tidemill.wire.primitives import Records


class Base64(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that are not UTF-8."""

    base64: str


Text = str | Base64 | None
"""A key, a value or a header; None if the record has none."""


def text_of(value: bytes | None) -> Text:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return Base64(b64encode(value).decode())


def batches_of(records: Records | None) -> bytes:
    """Return the batches of a response: this broker's are in parts, those of another one are not."""
    if records is None:
        return b""
    return bytes(records) if isinstance(records, (bytes, bytearray, memoryview)) else b"".join(records)


def size_of_batches(records: Records | None) -> int:
    if records is None:
        return 0
    return len(records) if isinstance(records, (bytes, bytearray, memoryview)) else sum(map(len, records))


def size_of_texts(texts: Iterable[Text]) -> int:
    """Return about how many bytes keys, values and headers have."""
    return sum(len(it.base64 if isinstance(it, Base64) else it or "") for it in texts)


def headers_of(record: Record) -> list[tuple[str, Text]]:
    return [(name, text_of(value)) for name, value in record.headers]
