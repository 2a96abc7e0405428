"""Compiles the decoder of a message in one version.

A decoder does not trust its input.  It compares every length and count with the number of remaining bytes before it
allocates memory.  Structs read fixed-width fields and short strings; a struct raises struct.error at the end of the
buffer.  Every error that a malformed message can cause is raised as ProtocolError.

One struct unpacks a run of consecutive fixed-width fields and the length after them.  Nested structs are inlined.
"""

from collections.abc import Callable
from struct import Struct, unpack_from
from struct import error as struct_error
from typing import Any, Final

from tidemill.wire.primitives import (
    Array,
    Buffer,
    Field,
    Fixed,
    Kind,
    Opaque,
    ProtocolError,
    Text,
    read_tag,
    read_tag_count,
    read_uvarint_after,
    skip_tags,
)
from tidemill.wire.source import Source

Decoder = Callable[[Buffer, int], Any]

ELEMENTS_MAX: Final = 1 << 16  # the most array elements in a message: decoding blocks the event loop (decision 15)
# A message with more array elements than this must have at least 3 bytes for each: each becomes a Python object.  The
# smallest ones that brokers send, empty headers of records that wait (`peer/timer_list`), have 3.
ELEMENTS_FREE: Final = 1024

_UNPACKERS: Final = 32  # precompiled structs read arrays with fewer numbers than this
_SHORT_TEXT: Final = 64  # precompiled structs read strings of up to this many bytes
_SIZED_TEXT: Final = tuple(Struct(f"{size}s").unpack_from for size in range(_SHORT_TEXT + 1))
_COMPACT_TEXT: Final = (None, *_SIZED_TEXT)  # the index is the length plus one, as compact strings encode it


def compile_decoder(
    message: type, fields: tuple[Field, ...], version: int, *, is_flexible: bool, ignores_trailing_bytes: bool = False
) -> Decoder:
    """
    Return a function that decodes `message` from a buffer and a position.  The function raises ProtocolError.

    With `ignores_trailing_bytes`, the decoder ignores bytes after the end of the message instead of refusing them.
    """
    return _DecoderSource(version, is_flexible=is_flexible).compile(
        message, fields, ignores_trailing_bytes=ignores_trailing_bytes
    )


def _long_text(view: memoryview, position: int, prefix: int, is_nullable: bool) -> tuple[str | None, int]:
    """Read a compact string whose first length byte exceeds `_SHORT_TEXT`; return it and the position after it.

    `prefix` is that byte, and `position` is the position of the byte after it.
    """
    size, position = read_uvarint_after(view, position, prefix)
    if size == 0 and is_nullable:
        return None, position
    return _text(view, position, size - 1)


def _text(view: memoryview, position: int, size: int) -> tuple[str, int]:
    end = position + size
    if size < 0:
        raise ProtocolError(f"a non-nullable string has a length of {size}")
    if end > len(view):
        raise ProtocolError(f"a string of {size} bytes, but only {len(view) - position} are left")
    return str(view[position:end], "utf-8"), end


def _refuse_null() -> None:
    raise ProtocolError("a field that is not nullable is null")


def _refuse_size(size: int, left: int) -> None:
    if size < 0:
        raise ProtocolError(f"a length of {size}")
    raise ProtocolError(f"a length of {size} bytes, but only {left} are left")


def _refuse_count(count: int, left: int) -> None:
    if count < 0:
        raise ProtocolError(f"an array of {count} elements")
    raise ProtocolError(f"an array of {count} elements, but only {left} bytes are left, or too many in one message")


def _elements_max(size: int) -> int:
    """Return the maximum number of array elements in a message of `size` bytes."""
    return min(max(ELEMENTS_FREE, size // 3), ELEMENTS_MAX)


def _refuse_tag(tag: int, read: int, size: int) -> None:
    raise ProtocolError(f"tagged field {tag} declares {size} bytes but has {read}")


def _refuse_trailing_bytes(position: int, end: int) -> None:
    raise ProtocolError(f"{end - position} bytes after the end of the message")


def _unpack_many(format_: str, size: int, count: int, view: memoryview, position: int) -> tuple[Any, ...]:
    if count * size > len(view) - position:
        _refuse_count(count, len(view) - position)
    return unpack_from(f">{count}{format_}", view, position)


class _DecoderSource:
    """
    Generates the source of one decoder, field by field.

    `_run` collects consecutive fixed-width values, as (struct format, assignment target), to unpack them together.
    """

    def __init__(self, version: int, *, is_flexible: bool) -> None:
        self._version = version
        self._is_flexible = is_flexible
        self._source = Source(
            new=object.__new__,
            ProtocolError=ProtocolError,
            struct_error=struct_error,
            sized_text=_SIZED_TEXT,
            compact_text=_COMPACT_TEXT,
            long_text=_long_text,
            text=_text,
            more=read_uvarint_after,
            refuse_null=_refuse_null,
            refuse_size=_refuse_size,
            refuse_count=_refuse_count,
            elements_max=_elements_max,
            refuse_tag=_refuse_tag,
            refuse_trailing_bytes=_refuse_trailing_bytes,
            skip_tags=skip_tags,
            tag_count=read_tag_count,
            read_tag=read_tag,
            unpack_many=_unpack_many,
        )
        self._run: list[tuple[str, str]] = []

    def compile(self, message: type, fields: tuple[Field, ...], *, ignores_trailing_bytes: bool) -> Decoder:
        source = self._source
        title = f"{message.__module__.rpartition('.')[2]} {message.__qualname__} v{self._version}"
        with source.block("def decode(view, at):"):
            with source.block("try:"):
                source.line("if type(view) is not memoryview: view = memoryview(view)")
                source.line("end = len(view)")
                source.line("elements = 0")
                target = self._nested(message, fields)
                self._flush()
                if not ignores_trailing_bytes:
                    source.line("if at != end: refuse_trailing_bytes(at, end)")
                source.line(f"return {target}")
            with source.block("except ProtocolError as error:"):
                source.line(f"raise ProtocolError('{title}: ' + str(error)) from None")
            with source.block("except (struct_error, IndexError) as error:"):
                source.line(f"raise ProtocolError('{title}: the message ends too early') from error")
            with source.block("except UnicodeDecodeError as error:"):
                source.line(f"raise ProtocolError('{title}: a string is not UTF-8') from error")
        decoder: Decoder = source.function("decode")
        return decoder

    def _nested(self, message: type, fields: tuple[Field, ...]) -> str:
        source = self._source
        target = source.fresh("struct")
        source.line(f"{target} = new({source.refer(message)})")
        present = [field for field in fields if field.is_in(self._version)]
        tagged = [field for field in present if field.is_tagged_in(self._version)]
        self._defaults(target, [field for field in fields if field not in present or field in tagged])
        for field in present:
            if field not in tagged:
                self._value(field.kind, f"{target}.{field.name}", is_nullable=field.is_nullable_in(self._version))
        if self._is_flexible:
            self._tags(target, tagged)
        return target

    def _defaults(self, target: str, fields: list[Field]) -> None:
        by_default: dict[str, list[str]] = {}
        for field in fields:
            default = None if isinstance(field.kind, type) else field.implicit_default()
            by_default.setdefault(repr(default), []).append(f"{target}.{field.name}")
        for default, targets in by_default.items():
            self._source.line(f"{' = '.join(targets)} = {default}")

    def _value(self, kind: Kind, target: str, *, is_nullable: bool) -> None:
        if isinstance(kind, Fixed):
            self._run.append((kind.format, target))
        elif isinstance(kind, Text):
            self._text(target, is_nullable=is_nullable)
        elif isinstance(kind, Opaque):
            self._opaque(target, is_nullable=is_nullable, is_records=kind.is_records)
        elif isinstance(kind, Array):
            self._array(kind.element, target, is_nullable=is_nullable)
        else:
            self._struct(kind, target, is_nullable=is_nullable)

    def _text(self, target: str, *, is_nullable: bool) -> None:
        source = self._source
        null = f"{target} = None" if is_nullable else "refuse_null()"
        if self._is_flexible:
            prefix = self._read("B", "size")
            with source.block(f"if {prefix} > {_SHORT_TEXT}:"):
                source.line(f"{target}, at = long_text(view, at, {prefix}, {is_nullable})")
            with source.block(f"elif {prefix}:"):
                source.line(f"{target} = compact_text[{prefix}](view, at)[0].decode(); at += {prefix} - 1")
            with source.block("else:"):
                source.line(null)
            return
        size = self._read("h", "size")
        with source.block(f"if {size} > {_SHORT_TEXT}:"):
            source.line(f"{target}, at = text(view, at, {size})")
        with source.block(f"elif {size} >= 0:"):
            source.line(f"{target} = sized_text[{size}](view, at)[0].decode(); at += {size}")
        with source.block(f"elif {size} == -1:"):
            source.line(null)
        with source.block("else:"):
            source.line(f"refuse_size({size}, end - at)")

    def _opaque(self, target: str, *, is_nullable: bool, is_records: bool) -> None:
        source = self._source
        size, stop = self._size("size"), source.fresh("stop")
        with source.block(f"if {size} >= 0:"):
            source.line(f"{stop} = at + {size}")
            source.line(f"if {stop} > end: refuse_size({size}, end - at)")
            source.line(f"{target} = view[at:{stop}]{'' if is_records else '.tobytes()'}; at = {stop}")
        with source.block(f"elif {size} == -1:"):
            source.line(f"{target} = None" if is_nullable else "refuse_null()")
        with source.block("else:"):
            source.line(f"refuse_size({size}, end - at)")

    def _array(self, element: Any, target: str, *, is_nullable: bool) -> None:
        if isinstance(element, Fixed) and len(element.format) == 1:
            self._numbers(element, target, is_nullable=is_nullable)
            return
        source = self._source
        values = source.fresh("values")
        count = self._read("B" if self._is_flexible else "i", "count")
        one = 2 if self._is_flexible else 1  # the encoding of the count 1
        with source.block(f"if {count} != {one}:  # a single element needs no check: its fields are checked"):
            if self._is_flexible:
                source.line(f"if {count} > 127: {count}, at = more(view, at, {count})")
                source.line(f"{count} -= 1")
            with source.block(f"if {count} > 0:"):
                source.line(f"elements += {count}")
                size_min = self._size_min(element, is_nullable=False)
                source.line(f"if {count} * {size_min} > end - at: refuse_count({count}, end - at)")
                source.line(
                    f"if elements > {ELEMENTS_FREE} and elements > elements_max(end): refuse_count({count}, end - at)"
                )
            with source.block(f"elif {count} < 0:"):
                if is_nullable:
                    source.line(f"if {count} != -1: refuse_count({count}, end - at)")
                else:
                    source.line(f"refuse_null() if {count} == -1 else refuse_count({count}, end - at)")
        if self._is_flexible:
            with source.block("else:"):
                source.line(f"{count} = 1")
        nothing = f"() if {count} == 0 else None" if is_nullable else "()"
        source.line(f"{target} = {values} = [] if {count} > 0 else {nothing}")
        with source.block(f"for _ in range({count}):"):
            if isinstance(element, type):
                item = self._nested(element, element.__fields__)  # type: ignore[attr-defined]
            else:
                item = source.fresh("item")
                self._value(element, item, is_nullable=False)
            self._flush()
            source.line(f"{values}.append({item})")

    def _numbers(self, element: Fixed, target: str, *, is_nullable: bool) -> None:
        source = self._source
        count = self._size("count")
        unpackers = source.refer(tuple(Struct(f">{n}{element.format}").unpack_from for n in range(_UNPACKERS)))
        with source.block(f"if {count} >= {_UNPACKERS}:"):
            # One-byte numbers, such as the types of acknowledgements, become no objects: four count as an element.
            source.line(f"elements += {count}{' >> 2' if element.size == 1 else ''}")
            source.line(
                f"if elements > {ELEMENTS_FREE} and elements > elements_max(end): refuse_count({count}, end - at)"
            )
            source.line(f"{target} = unpack_many({element.format!r}, {element.size}, {count}, view, at)")
            source.line(f"at += {count} * {element.size}")
        with source.block(f"elif {count} >= 0:"):
            source.line(f"{target} = {unpackers}[{count}](view, at); at += {count} * {element.size}")
        with source.block(f"elif {count} == -1:"):
            source.line(f"{target} = None" if is_nullable else "refuse_null()")
        with source.block("else:"):
            source.line(f"refuse_count({count}, end - at)")

    def _struct(self, message: type, target: str, *, is_nullable: bool) -> None:
        source = self._source
        fields: tuple[Field, ...] = message.__fields__  # type: ignore[attr-defined]
        if not is_nullable:
            nested = self._nested(message, fields)
            source.line(f"{target} = {nested}")
            return
        presence = self._read("b", "presence")
        with source.block(f"if {presence} < 0:"):
            source.line(f"{target} = None")
        with source.block("else:"):
            nested = self._nested(message, fields)
            self._flush()
            source.line(f"{target} = {nested}")

    def _tags(self, target: str, tagged: list[Field]) -> None:
        source = self._source
        count = self._read("B", "tags")
        with source.block(f"if {count}:"):
            if not tagged:
                source.line(f"at = skip_tags(view, at, {count})")
                return
            tag, size, stop = source.fresh("tag"), source.fresh("size"), source.fresh("stop")
            source.line(f"{count}, at = tag_count(view, at, {count})")
            with source.block(f"for _ in range({count}):"):
                source.line(f"{tag}, at, {size} = read_tag(view, at)")
                source.line(f"{stop} = at + {size}")
                for index, field in enumerate(tagged):
                    with source.block(f"{'elif' if index else 'if'} {tag} == {field.tag}:"):
                        is_nullable = field.is_nullable_in(self._version)
                        self._value(field.kind, f"{target}.{field.name}", is_nullable=is_nullable)
                        self._flush()
                        source.line(f"if at != {stop}: refuse_tag({tag}, {size} - {stop} + at, {size})")
                source.line(f"at = {stop}")

    def _size(self, prefix: str) -> str:
        """Generate code that reads a length or count, and return the name of its variable, which is -1 for null."""
        if not self._is_flexible:
            return self._read("i", prefix)
        size = self._read("B", prefix)
        source = self._source
        with source.block(f"if {size} > 127:"):
            source.line("if view[at] < 128:  # two bytes: the common case of the longer ones")
            source.line(f"    {size} += (view[at] << 7) - 128; at += 1")
            source.line("else:")
            source.line(f"    {size}, at = more(view, at, {size})")
        source.line(f"{size} -= 1")
        return size

    def _read(self, format_: str, prefix: str) -> str:
        """Generate code that reads the pending run and a number after it, and return the name of the number's variable.

        Call it for a number that the next generated lines use: such a number cannot stay in the pending run.
        """
        target = self._source.fresh(prefix)
        self._run.append((format_, target))
        self._flush()
        return target

    def _flush(self) -> None:
        if not self._run:
            return
        formats = "".join(format_ for format_, _ in self._run)
        targets = ", ".join(target for _, target in self._run)
        if formats == "B":
            self._source.line(f"{targets} = view[at]; at += 1")
        else:
            unpack = self._source.struct_method("unpack_from", formats)
            size = Struct(">" + formats).size
            self._source.line(f"{targets}{',' if len(self._run) == 1 else ''} = {unpack}(view, at); at += {size}")
        self._run.clear()

    def _size_min(self, kind: Kind, *, is_nullable: bool) -> int:
        """Return the smallest encoded size of a value, in bytes."""
        if isinstance(kind, Fixed):
            return kind.size
        if isinstance(kind, Text):
            return 1 if self._is_flexible else 2
        if isinstance(kind, (Opaque, Array)):
            return 1 if self._is_flexible else 4
        if is_nullable:
            return 1
        fields: tuple[Field, ...] = kind.__fields__  # type: ignore[attr-defined]
        sizes = (
            self._size_min(field.kind, is_nullable=field.is_nullable_in(self._version))
            for field in fields
            if field.is_in(self._version) and not field.is_tagged_in(self._version)
        )
        return max(1, sum(sizes) + (1 if self._is_flexible else 0))
