"""Compiles the encoder of a message in one version.

It takes a message, the bytearray to append to and the list of finished parts, and returns the bytearray that is still
open.  Records are not copied: the open bytearray and the records become parts, and a new bytearray is opened.

Every run of fixed-width fields, with the length that follows it, is packed by one struct; nested structs are inline.
"""

from collections.abc import Callable
from struct import Struct, pack
from typing import Any, Final

from tidemill.wire.primitives import Array, Field, Fixed, Kind, Opaque, Text, uvarint
from tidemill.wire.source import Source

Encoder = Callable[[Any, bytearray, list[bytes | bytearray | memoryview]], bytearray]

_PACKERS: Final = 32  # arrays of numbers shorter than this have a struct of their own
_SMALL_UVARINTS: Final = tuple(uvarint(value) for value in range(128))


def compile_encoder(fields: tuple[Field, ...], version: int, *, is_flexible: bool) -> Encoder:
    return _EncoderSource(version, is_flexible=is_flexible).compile(fields)


def _pack_many(format_: str, values: Any) -> bytes:
    return pack(f">{len(values)}{format_}", *values)


def _blank(message: type) -> object:
    """The nested struct that a tagged field has when it is not sent."""
    fields: tuple[Field, ...] = message.__fields__  # type: ignore[attr-defined]
    return message(**{field.name: field.implicit_default() for field in fields})


class _EncoderSource:
    """
    The fields of one message in one version, written line by line.

    `_run` holds the fixed-width values that wait to be packed together: format and expression.
    """

    def __init__(self, version: int, *, is_flexible: bool) -> None:
        self._version = version
        self._is_flexible = is_flexible
        self._source = Source(uvarint=uvarint, small_uvarints=_SMALL_UVARINTS, pack_many=_pack_many)
        self._out = "out"  # what is written to: a tagged field has a bytearray of its own, for its size
        self._run: list[tuple[str, str]] = []

    def compile(self, fields: tuple[Field, ...]) -> Encoder:
        with self._source.block("def encode(message, out, parts):"):
            self._struct(fields, "message")
            self._flush()
            self._source.line("return out")
        encoder: Encoder = self._source.function("encode")
        return encoder

    def _struct(self, fields: tuple[Field, ...], message: str) -> None:
        present = [field for field in fields if field.is_in(self._version)]
        tagged = [field for field in present if field.is_tagged_in(self._version)]
        for field in present:
            if field not in tagged:
                self._value(field.kind, f"{message}.{field.name}", is_nullable=field.is_nullable_in(self._version))
        if self._is_flexible:
            self._tags(sorted(tagged, key=lambda field: field.tag or 0), message)

    def _value(self, kind: Kind, value: str, *, is_nullable: bool) -> None:
        if isinstance(kind, Fixed):
            self._run.append((kind.format, value))
        elif isinstance(kind, Text):
            self._text(value, is_nullable=is_nullable)
        elif isinstance(kind, Opaque):
            self._opaque(value, is_nullable=is_nullable, is_records=kind.is_records)
        elif isinstance(kind, Array):
            self._array(kind.element, value, is_nullable=is_nullable)
        else:
            self._nested(kind, value, is_nullable=is_nullable)

    def _text(self, value: str, *, is_nullable: bool) -> None:
        source = self._source
        text, size = source.fresh("text"), source.fresh("size")
        source.line(f"{text} = {value}")
        if is_nullable:
            with source.block(f"if {text} is None:"):
                source.line(f"{text} = b''; {size} = -1")
            with source.block("else:"):
                source.line(f"{text} = {text}.encode(); {size} = len({text})")
        else:
            source.line(f"{text} = {text}.encode(); {size} = len({text})")
        self._length(size, "h")
        source.line(f"{self._out} += {text}")

    def _opaque(self, value: str, *, is_nullable: bool, is_records: bool) -> None:
        source = self._source
        data, size = source.fresh("data"), source.fresh("size")
        source.line(f"{data} = {value}")
        if is_nullable:
            with source.block(f"if {data} is None:"):
                source.line(f"{data} = b''")
                source.line(f"{size} = -1")
            with source.block("else:"):
                self._measure(data, size, is_records=is_records)
        else:
            self._measure(data, size, is_records=is_records)
        self._length(size, "i")
        if not is_records:
            source.line(f"{self._out} += {data}")
            return
        assert self._out == "out", "records in a tagged field would have to be copied"
        with source.block(f"if {size} > 0:"):
            source.line("parts.append(out)")
            with source.block(f"if type({data}) is list or type({data}) is tuple:"):
                source.line(f"parts.extend({data})")
            with source.block("else:"):
                source.line(f"parts.append({data})")
            source.line("out = bytearray()")

    def _measure(self, data: str, size: str, *, is_records: bool) -> None:
        if is_records:
            self._source.line(
                f"{size} = sum(map(len, {data})) if type({data}) is list or type({data}) is tuple else len({data})"
            )
        else:
            self._source.line(f"{size} = len({data})")

    def _array(self, element: Any, value: str, *, is_nullable: bool) -> None:
        source = self._source
        values, count = source.fresh("values"), source.fresh("count")
        source.line(f"{values} = {value}")
        if is_nullable:
            with source.block(f"if {values} is None:"):
                source.line(f"{values} = (); {count} = -1")
            with source.block("else:"):
                source.line(f"{count} = len({values})")
        else:
            source.line(f"{count} = len({values})")
        if isinstance(element, Fixed) and len(element.format) == 1:
            self._numbers(element.format, values, count)
            return
        self._length(count, "i")
        item = source.fresh("item")
        with source.block(f"for {item} in {values}:"):
            self._value(element, item, is_nullable=False)
            self._flush()

    def _numbers(self, format_: str, values: str, count: str) -> None:
        """An array of numbers: one struct, together with the count where nothing waits before it."""
        source = self._source
        if self._is_flexible and not self._run:
            packers = source.refer(tuple(Struct(f">B{n}{format_}").pack for n in range(_PACKERS)))
            short = f"{packers}[{count}]({count} + 1, *{values})"
            with source.block(f"if 0 <= {count} < {_PACKERS}:"):
                source.line(f"{self._out} += {short}")
            with source.block("else:"):
                source.line(f"{self._out} += uvarint({count} + 1) + pack_many({format_!r}, {values})")
            return
        self._length(count, "i")
        packers = source.refer(tuple(Struct(f">{n}{format_}").pack for n in range(_PACKERS)))
        with source.block(f"if {count} > 0:"):
            source.line(
                f"{self._out} += {packers}[{count}](*{values}) if {count} < {_PACKERS} "
                f"else pack_many({format_!r}, {values})"
            )

    def _nested(self, message: type, value: str, *, is_nullable: bool) -> None:
        source = self._source
        fields: tuple[Field, ...] = message.__fields__  # type: ignore[attr-defined]
        nested = source.fresh("nested")
        source.line(f"{nested} = {value}")
        if not is_nullable:
            self._struct(fields, nested)
            return
        self._flush()
        with source.block(f"if {nested} is None:"):
            source.line(f"{self._out} += b'\\xff'")
        with source.block("else:"):
            self._run.append(("b", "1"))
            self._struct(fields, nested)
            self._flush()

    def _tags(self, tagged: list[Field], message: str) -> None:
        if not tagged:
            self._run.append(("x", ""))
            return
        source = self._source
        self._flush()
        conditions = [self._is_sent(field, f"{message}.{field.name}") for field in tagged]
        with source.block(f"if {' or '.join(conditions)}:"):
            section, count = source.fresh("section"), source.fresh("count")
            source.line(f"{section} = bytearray(); {count} = 0")
            for field, condition in zip(tagged, conditions, strict=True):
                with source.block(f"if {condition}:"):
                    self._tag(field, f"{message}.{field.name}", section)
                    source.line(f"{count} += 1")
            source.line(f"{self._out} += small_uvarints[{count}] + {section}")
        with source.block("else:"):
            source.line(f"{self._out} += b'\\0'")

    def _tag(self, field: Field, value: str, section: str) -> None:
        source, outer = self._source, self._out
        self._out = source.fresh("tagged")
        source.line(f"{self._out} = bytearray()")
        self._value(field.kind, value, is_nullable=field.is_nullable_in(self._version))
        self._flush()
        source.line(f"{section} += uvarint({field.tag}) + uvarint(len({self._out})) + {self._out}")
        self._out = outer

    def _is_sent(self, field: Field, value: str) -> str:
        """As in Kafka, a tagged field travels only when it is not what its absence means."""
        if isinstance(field.kind, type):
            return f"({value} is not None and {value} != {self._source.refer(_blank(field.kind))})"
        if isinstance(field.kind, Array):
            return f"{value}"
        if field.default is None:
            return f"{value} is not None"
        return f"{value} != {field.default!r}"

    def _length(self, size: str, format_: str) -> None:
        """A length or count, −1 for null, behind what waits in the run."""
        source = self._source
        if not self._is_flexible:
            self._run.append((format_, size))
            self._flush()
            return
        if not self._run:
            source.line(f"{self._out} += small_uvarints[{size} + 1] if {size} < 127 else uvarint({size} + 1)")
            return
        with source.block(f"if {size} < 127:"):
            source.line(f"{self._out} += {self._packed([*self._run, ('B', f'{size} + 1')])}")
        with source.block("else:"):
            source.line(f"{self._out} += {self._packed(self._run)} + uvarint({size} + 1)")
        self._run.clear()

    def _flush(self) -> None:
        if self._run:
            self._source.line(f"{self._out} += {self._packed(self._run)}")
            self._run.clear()

    def _packed(self, run: list[tuple[str, str]]) -> str:
        formats = "".join(format_ for format_, _ in run)
        expressions = [expression for format_, expression in run if format_ != "x"]
        if not expressions:
            return repr(bytes(len(run)))
        return f"{self._source.struct_method('pack', formats)}({', '.join(expressions)})"
