"""A second, readable implementation of the encoding of records, with which tests compare that of `scan`."""

from collections.abc import Sequence

from tidemill.batches.batch import HEADER_BYTES, Buffer
from tidemill.batches.records import Header

RawRecord = tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]  # key, value, headers


def append_record(
    body: bytearray,
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header | tuple[bytes, bytes | None]],
) -> None:
    """
    Append one record, preceded by its length, to the records of a batch.  `timestamp_delta` is in milliseconds.  The
    name of a header is text, or any bytes.
    """
    record = bytearray(1)  # attributes: none are defined
    append_varint(record, timestamp_delta)
    append_varint(record, offset_delta)
    _append_nullable(record, key)
    _append_nullable(record, value)
    append_varint(record, len(headers))
    for name, content in headers:
        _append_nullable(record, name if isinstance(name, bytes) else name.encode())
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


def raw_records(batch: Buffer) -> list[RawRecord]:
    """Return the records of an uncompressed batch with all bytes that their producer may have sent."""
    found: list[RawRecord] = []
    at = HEADER_BYTES
    while at < len(batch):
        size, at = _varint(batch, at)
        end = at + size
        _, at = _varint(batch, at + 1)
        _, at = _varint(batch, at)
        key, at = _nullable(batch, at)
        value, at = _nullable(batch, at)
        count, at = _varint(batch, at)
        headers = []
        for _ in range(count):
            name, at = _nullable(batch, at)
            content, at = _nullable(batch, at)
            assert name is not None
            headers.append((name, content))
        assert at == end
        found.append((key, value, headers))
    return found


def _varint(data: Buffer, at: int) -> tuple[int, int]:
    """Return the number of a varint, and the position behind it."""
    zigzag = shift = 0
    while data[at] > 0x7F:
        zigzag |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
    zigzag |= data[at] << shift
    return zigzag >> 1 ^ -(zigzag & 1), at + 1


def _nullable(data: Buffer, at: int) -> tuple[bytes | None, int]:
    length, at = _varint(data, at)
    return (None, at) if length < 0 else (bytes(data[at : at + length]), at + length)
