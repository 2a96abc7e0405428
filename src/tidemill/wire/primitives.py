"""The field types of Kafka messages, and unsigned variable-length integers.

All numbers are big-endian.  In flexible versions (KIP-482), a length or count is increased by one and encoded as an
unsigned varint, and 0 means null.  In older versions, a length or count is an int16 (strings) or an int32 (all other
types), and -1 means null.  A nullable struct is preceded by one byte: a negative byte means null, and any other byte is
followed by the struct.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Buffer = bytes | bytearray | memoryview
Records = Buffer | Sequence[Buffer]
"""Record batches to send: one buffer, or several buffers to send one after the other.  They are not copied."""

UVARINT_BYTES_MAX: Final = 5  # enough for 32 bits; Kafka has longer varints only in records
TAGS_MAX: Final = 64  # tagged fields in one struct; Kafka has at most five, but a hostile header could declare millions


class ProtocolError(ValueError):
    """Received bytes are not a Kafka message.  The text names the problem.  The connection must be closed."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A type of fixed width.  One struct reads or writes consecutive fields of such types."""

    name: str
    format: str  # in the notation of the `struct` module
    size: int  # in bytes
    zero: object
    minimum: int | None = None  # `minimum` and `maximum` are for tests that draw random values
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """A UTF-8 string."""

    name: str = "STRING"


@dataclass(frozen=True, slots=True)
class Opaque:
    """Bytes.  A decoder copies them, except for record batches, which are a view of the message."""

    name: str
    is_records: bool


@dataclass(frozen=True, slots=True)
class Array:
    element: "Fixed | Text | Opaque | type"


Kind = Fixed | Text | Opaque | Array | type
"""A `type` is a nested struct: a subclass of `schema.Message`."""


def _integer(name: str, format_: str, size: int, *, signed: bool = True) -> Fixed:
    span = 1 << (8 * size)
    return Fixed(name, format_, size, 0, -span // 2 if signed else 0, span // 2 - 1 if signed else span - 1)


INT8: Final = _integer("INT8", "b", 1)
INT16: Final = _integer("INT16", "h", 2)
UINT16: Final = _integer("UINT16", "H", 2, signed=False)
INT32: Final = _integer("INT32", "i", 4)
INT64: Final = _integer("INT64", "q", 8)
BOOL: Final = Fixed("BOOL", "?", 1, False)
UUID: Final = Fixed("UUID", "16s", 16, bytes(16))  # 16 raw bytes, as in `model.topic.TopicId`
STRING: Final = Text()
BYTES: Final = Opaque("BYTES", is_records=False)
RECORDS: Final = Opaque("RECORDS", is_records=True)


def array(element: Fixed | Text | Opaque | type) -> Array:
    return Array(element)


def uvarint(value: int) -> bytes:
    """
    Return `value` as an unsigned varint: seven bits per byte, lowest first; the top bit is set if more bytes follow.

    Raise ValueError if `value` does not fit in 32 bits.
    """
    if 0 <= value < 1 << 7:
        return bytes((value,))
    if 0 < value < 1 << 14:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if 0 < value < 1 << 21:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    if not 0 < value < 1 << 32:
        raise ValueError(f"{value} does not fit an unsigned varint of 32 bits")
    return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80)) + uvarint(value >> 21)


def read_uvarint(view: memoryview, position: int) -> tuple[int, int]:
    """Return the varint at `position` and the position after it.  Raise ProtocolError."""
    value = shift = 0
    for size in range(1, UVARINT_BYTES_MAX + 1):
        if position >= len(view):
            raise ProtocolError("the message ends inside a varint")
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if size == UVARINT_BYTES_MAX and byte > 0x0F:
                raise ProtocolError(f"a varint of {value} does not fit 32 bits")
            return value, position
        shift += 7
    raise ProtocolError(f"a varint is longer than {UVARINT_BYTES_MAX} bytes")


def read_uvarint_after(view: memoryview, position: int, first: int) -> tuple[int, int]:
    """Return the varint whose first byte has already been read, and the position after it.  Raise ProtocolError.

    `first` is the first byte, and `position` is the position of the second byte.
    """
    return (first, position) if first < 0x80 else read_uvarint(view, position - 1)


def skip_tags(view: memoryview, position: int, first: int) -> int:
    """
    Return the position after a section of unknown tagged fields.  Raise ProtocolError.

    `first` is the first byte of the section, where the count begins; `position` is the position of the second byte.
    """
    count, position = read_tag_count(view, position, first)
    for _ in range(count):
        _, position, size = read_tag(view, position)
        position += size
    return position


def read_tag_count(view: memoryview, position: int, first: int) -> tuple[int, int]:
    """Return the number of tagged fields and the position after it.  Raise ProtocolError if it exceeds TAGS_MAX.

    `first` is the first byte of the number, and `position` is the position of the second byte.
    """
    count, position = read_uvarint_after(view, position, first)
    if count > TAGS_MAX:
        raise ProtocolError(f"{count} tagged fields in one struct; at most {TAGS_MAX} are allowed")
    return count, position


def read_tag(view: memoryview, position: int) -> tuple[int, int, int]:
    """Return a field's tag, the position of its value and the value's size in bytes.  Raise ProtocolError."""
    tag, position = read_uvarint(view, position)
    size, position = read_uvarint(view, position)
    if size > len(view) - position:
        raise ProtocolError(f"tagged field {tag} declares {size} bytes, but only {len(view) - position} are left")
    return tag, position, size


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """
    One declared field of a message.  Versions are those of the API; `until` is the first version without the field.
    """

    kind: Kind
    since: int = 0
    until: int | None = None
    nullable_since: int | None = None  # None: never null on the wire
    tag: int | None = None
    tagged_since: int = 0
    default: object = None
    is_required: bool = False  # whether a value must be given to construct a message
    name: str = ""

    def is_in(self, version: int) -> bool:
        return self.since <= version and (self.until is None or version < self.until)

    def is_tagged_in(self, version: int) -> bool:
        return self.tag is not None and version >= self.tagged_since

    def is_nullable_in(self, version: int) -> bool:
        return self.nullable_since is not None and version >= self.nullable_since

    def implicit_default(self) -> object:
        """Return the value of a field that was not sent: its default, or the zero value of its type."""
        if not self.is_required:
            return self.default
        if isinstance(self.kind, Fixed):
            return self.kind.zero
        if isinstance(self.kind, Text):
            return ""
        if isinstance(self.kind, Opaque):
            return b""
        if isinstance(self.kind, Array):
            return ()
        return None
