"""A second, readable implementation of the encoding of records, with which tests compare that of `scan`."""

from collections.abc import Sequence

from tidemill.batches.records import Header


def append_record(
    body: bytearray,
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header],
) -> None:
    """Append one record, preceded by its length, to the records of a batch.  `timestamp_delta` is in milliseconds."""
    record = bytearray(1)  # attributes: none are defined
    append_varint(record, timestamp_delta)
    append_varint(record, offset_delta)
    _append_nullable(record, key)
    _append_nullable(record, value)
    append_varint(record, len(headers))
    for name, content in headers:
        _append_nullable(record, name.encode())
        _append_nullable(record, content)
    append_varint(body, len(record))
    body += record


def append_varint(body: bytearray, number: int) -> None:
    """Append an int32 or int64 as a varint: zigzag encoding, seven bits per byte, least significant bits first."""
    zigzag = number << 1 ^ number >> 63
    while zigzag > 0x7F:
        body.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    body.append(zigzag)


def _append_nullable(body: bytearray, content: bytes | None) -> None:
    if content is None:
        body.append(1)  # the varint of -1
    else:
        append_varint(body, len(content))
        body += content
