"""The types a field of a Kafka message can have, and the variable-length integers between them.

All numbers are big-endian.  In flexible versions every length and count is an unsigned varint of the length plus one,
so that 0 is null; before them it is an int16 (strings) or an int32 (the rest), and −1 is null.  A null struct is one
byte, −1, and any other byte stands before a struct that is there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Buffer = bytes | bytearray | memoryview
Records = Buffer | Sequence[Buffer]
"""Record batches to be sent: one buffer, or several that lie one behind the other on the wire; none is copied."""

UVARINT_BYTES_MAX: Final = 5  # 32 bits; Kafka has no longer one outside of records
TAGS_MAX: Final = 64  # tagged fields in one struct; Kafka has at most five, and a hostile header had twenty million


class ProtocolError(ValueError):
    """The other side sent what no Kafka message is.  The sentence says what; the connection is of no more use."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value of fixed width; runs of them are read and written in one go."""

    name: str
    format: str  # as in the struct module
    size: int
    zero: object
    minimum: int | None = None  # what numbers fit, for those who draw them at random
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """UTF-8."""

    name: str = "STRING"


@dataclass(frozen=True, slots=True)
class Opaque:
    """Bytes: copied out of the request, or a view on it where they are record batches."""

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
UUID: Final = Fixed("UUID", "16s", 16, bytes(16))  # 16 raw bytes: `model.topic.TopicId`
STRING: Final = Text()
BYTES: Final = Opaque("BYTES", is_records=False)
RECORDS: Final = Opaque("RECORDS", is_records=True)


def array(element: Fixed | Text | Opaque | type) -> Array:
    return Array(element)


def uvarint(value: int) -> bytes:
    """An unsigned varint: seven bits a byte, the lowest first; the top bit says that more follow."""
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
    """The value, and the position behind it."""
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
    """The varint whose first byte was read already, and the position behind it."""
    return (first, position) if first < 0x80 else read_uvarint(view, position - 1)


def skip_tags(view: memoryview, position: int, first: int) -> int:
    """The position behind a section of unknown tagged fields; `first` is the first byte of their count."""
    count, position = read_tag_count(view, position, first)
    for _ in range(count):
        _, position, size = read_tag(view, position)
        position += size
    return position


def read_tag_count(view: memoryview, position: int, first: int) -> tuple[int, int]:
    count, position = read_uvarint_after(view, position, first)
    if count > TAGS_MAX:
        raise ProtocolError(f"{count} tagged fields in one struct; at most {TAGS_MAX} are read")
    return count, position


def read_tag(view: memoryview, position: int) -> tuple[int, int, int]:
    """Tag, the position of its value, the size of its value."""
    tag, position = read_uvarint(view, position)
    size, position = read_uvarint(view, position)
    if size > len(view) - position:
        raise ProtocolError(f"tagged field {tag} says {size} bytes where {len(view) - position} are left")
    return tag, position, size


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a message, as its declaration says.  Versions are the API's; `until` is the first without it."""

    kind: Kind
    since: int = 0
    until: int | None = None
    nullable_since: int | None = None  # None: never null on the wire
    tag: int | None = None
    tagged_since: int = 0
    default: object = None
    is_required: bool = False  # a message cannot be made without it
    name: str = ""

    def is_in(self, version: int) -> bool:
        return self.since <= version and (self.until is None or version < self.until)

    def is_tagged_in(self, version: int) -> bool:
        return self.tag is not None and version >= self.tagged_since

    def is_nullable_in(self, version: int) -> bool:
        return self.nullable_since is not None and version >= self.nullable_since

    def implicit_default(self) -> object:
        """What the field has when a sender left it out: its default, or Kafka's zero of its type."""
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
