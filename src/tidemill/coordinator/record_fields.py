"""The encoding of fields in the keys and values of `__consumer_offsets`.

Kafka's older value versions have lengths of a fixed size; the *flexible* versions have compact lengths and tagged
fields.  The format is specified in `docs/formats/consumer_offsets.md`.
"""

import struct

INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")

NAME_BYTES_MAX = 32_767  # the largest int16 length; longer names are refused


class BadRecord(ValueError):
    """Bytes that are not a valid record of `__consumer_offsets`: damaged, or written by a newer version."""


def name_fits(name: str) -> bool:
    """Return whether a log record can hold `name`.  The bytes are counted only when they could exceed the limit."""
    return len(name) * 4 <= NAME_BYTES_MAX or len(name.encode()) <= NAME_BYTES_MAX


def string(value: str) -> bytes:
    data = value.encode()
    return INT16.pack(len(data)) + data


def nullable_string(value: str | None) -> bytes:
    return b"\xff\xff" if value is None else string(value)


def tagged(tag: int, data: bytes) -> bytes:
    return unsigned_varint(tag) + unsigned_varint(len(data)) + data


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class RecordReader:
    """Reads one key or value field by field, and checks every length against the number of remaining bytes."""

    __slots__ = ("_at", "_data", "flexible")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.flexible = False  # whether this version has compact lengths and tagged fields

    def take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise BadRecord(f"{size} bytes expected at position {self._at}; the record has {len(self._data)} bytes")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def unsigned_varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise BadRecord("varint of more than five bytes")

    def version(self, known: range) -> int:
        version = self.int16()
        if version not in known:
            raise BadRecord(f"value version {version}; versions {known.start} to {known.stop - 1} are supported")
        return version

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise BadRecord("null instead of a string")
        return value

    def nullable_string(self) -> str | None:
        size = self.unsigned_varint() - 1 if self.flexible else self.int16()
        if size == -1:
            return None
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise BadRecord(f"string is not UTF-8: {error}") from error

    def sized_bytes(self) -> bytes:
        return self.take(self.unsigned_varint() - 1 if self.flexible else self.int32())

    def count(self) -> int:
        """Read the number of elements of an array."""
        count = self.unsigned_varint() - 1 if self.flexible else self.int32()
        # An encoded element takes at least one byte, so there are no more elements than bytes.
        if not 0 <= count <= len(self._data) - self._at:
            raise BadRecord(f"claims to have {count} elements in {len(self._data) - self._at} bytes")
        return count

    def tags(self) -> dict[int, bytes]:
        """
        Read the tagged fields and return them by tag number.  For a version without tagged fields, return an empty
        dict.
        """
        if not self.flexible:
            return {}
        found: dict[int, bytes] = {}
        for _ in range(self.unsigned_varint()):
            tag = self.unsigned_varint()
            found[tag] = self.take(self.unsigned_varint())
        return found
