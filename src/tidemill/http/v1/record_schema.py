"""Records of responses, and their keys, values and headers in JSON: text, and base64 for what is not text.

Text is UTF-8 without control characters, except for tab, newline and return.  JSON escapes the others with six bytes
each, and a broker that compressed zeros make send a response of a hundred times their size would run out of memory;
the JSON of a text is at most twice as long.

A long text must be ASCII: one other character in it makes Python take up to four bytes for each of them.
"""

import sys
from collections.abc import Iterable
from typing import Final

import msgspec

from tidemill.batches.records import HEADER_MEMORY, RECORD_MEMORY, Record
from tidemill.wire.primitives import Records

DECOMPRESSED_BYTES_MAX: Final = 12 << 20  # of a batch: far more than producers gather in one
WIDE_BYTES_MAX: Final = 4 << 20  # of a text that is not ASCII
_CONTROLS: Final = bytes({*range(32)} - {*b"\t\n\r"})


class Base64(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    Bytes that are not UTF-8, or have control characters other than tab, newline and return, or have other characters
    than ASCII and are more than WIDE_BYTES_MAX.
    """

    base64: bytes


Text = str | Base64 | None
"""A key, a value or a header; None if the record has none."""

Header = tuple[str | Base64, Text]
"""The name and the value of a header."""


def text_of(value: bytes | None) -> Text:
    if value is None:
        return None
    if len(value) > WIDE_BYTES_MAX and not value.isascii():
        return Base64(value)
    if len(value.translate(None, _CONTROLS)) == len(value):
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass  # it is not text
    return Base64(value)


def batches_of(records: Records | None) -> bytes:
    """Return the batches of a response: this broker's are in parts, those of another one are not."""
    if records is None:
        return b""
    return bytes(records) if isinstance(records, (bytes, bytearray, memoryview)) else b"".join(records)


def size_of_batches(records: Records | None) -> int:
    if records is None:
        return 0
    return len(records) if isinstance(records, (bytes, bytearray, memoryview)) else sum(map(len, records))


def size_of_record(key: Text, value: Text, headers: Iterable[Header]) -> int:
    """Return about how many bytes of memory a record takes, or its JSON."""
    texts = (key, value, *(it for header in headers for it in header))
    return sum(map(_size, texts)) + RECORD_MEMORY + HEADER_MEMORY * (len(texts) // 2 - 1)


def _size(text: Text) -> int:
    if isinstance(text, Base64):
        return -(-len(text.base64) // 3) * 4
    return len(text or "") if text is None or text.isascii() else sys.getsizeof(text)


def header_of(name: str, value: bytes | None) -> Header:
    return (name if name.isprintable() else text_of(name.encode()) or "", text_of(value))


def headers_of(record: Record) -> list[Header]:
    return [header_of(*it) for it in record.headers]
