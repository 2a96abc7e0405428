"""Compiles the encoder of a message in one version.

An encoder takes a message, an open bytearray to which it appends, and the list of finished parts.  It returns the
bytearray that is open at the end.  Records are not copied: the encoder adds the open bytearray and the records to the
parts, and opens a new bytearray.

One struct packs a run of consecutive fixed-width fields and the length after them.  Nested structs are inlined.
"""

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

from tidemill.wire.primitives import Array, Field, Fixed, Kind, Opaque, Text, uvarint
from tidemill.wire.source import Source

Encoder = Callable[[Any, bytearray, list[bytes | bytearray | memoryview]], bytearray]

_KEPT_COUNT_MAX: Final = 16  # structs for arrays of up to this many numbers are cached
_SMALL_UVARINTS: Final = tuple(uvarint(value) for value in range(128))


def compile_encoder(fields: tuple[Field, ...], version: int, *, is_flexible: bool) -> Encoder:
    return _EncoderSource(version, is_flexible=is_flexible).compile(fields)


class _Packers(dict[int | tuple[int, ...], Callable[..., bytes]]):
    """Maps array lengths to a function that packs a run with arrays of these lengths in one call."""

    def __init__(self, *formats: str) -> None:
        # Every second format is that of an array's elements: ("ihB", "i", "B") stands for ihB, an array of i, and B.
        self._formats = formats

    def __missing__(self, key: int | tuple[int, ...]) -> Callable[..., bytes]:
        counts = (key,) if isinstance(key, int) else key
        formats = [self._formats[0]]
        for index, count in enumerate(counts):
            element, after = self._formats[1 + 2 * index : 3 + 2 * index]
            formats.append(f"{max(count, 0)}{element}{after}")
        packer = Struct(">" + "".join(formats)).pack
        if max(counts) <= _KEPT_COUNT_MAX:
            self[key] = packer
        return packer


def _blank(message: type) -> object:
    """Return a nested struct in which all fields have their defaults.  A tagged field with this value is not sent."""
    fields: tuple[Field, ...] = message.__fields__  # type: ignore[attr-defined]
    return message(**{field.name: field.implicit_default() for field in fields})


@dataclass(frozen=True, slots=True)
class _Fixed:
    format: str
    value: str  # the Python expression of the value to encode


@dataclass(frozen=True, slots=True)
class _Length:
    """A length in a flexible version: a varint, which nearly always has one byte."""

    size: str  # the Python expression of the length to encode; its value is -1 for null


@dataclass(frozen=True, slots=True)
class _Numbers:
    format: str
    values: str
    count: str


class _EncoderSource:
    """
    Generates the source of one encoder, field by field.

    `_run` collects consecutive fixed-width values, lengths and arrays of numbers, to pack them together.
    """

    def __init__(self, version: int, *, is_flexible: bool) -> None:
        self._version = version
        self._is_flexible = is_flexible
        self._source = Source(uvarint=uvarint, small_uvarints=_SMALL_UVARINTS)
        self._out = "out"  # the variable to append to; each tagged field has its own bytearray, to measure its size
        self._run: list[_Fixed | _Length | _Numbers] = []

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
            self._run.append(_Fixed(kind.format, value))
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
        self._flush()
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
        self._flush()
        if not is_records:
            source.line(f"{self._out} += {data}")
            return
        assert self._out == "out", "records in a tagged field are not supported: they would have to be copied"
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
        self._length(count, "i")
        if isinstance(element, Fixed) and len(element.format) == 1:
            self._run.append(_Numbers(element.format, values, count))
            return
        self._flush()
        item = source.fresh("item")
        with source.block(f"for {item} in {values}:"):
            self._value(element, item, is_nullable=False)
            self._flush()

    def _nested(self, message: type, value: str, *, is_nullable: bool) -> None:
        source = self._source
        fields: tuple[Field, ...] = message.__fields__  # type: ignore[attr-defined]
        if "." in value:
            nested = source.fresh("nested")
            source.line(f"{nested} = {value}")
        else:
            nested = value
        if not is_nullable:
            self._struct(fields, nested)
            return
        self._flush()
        with source.block(f"if {nested} is None:"):
            source.line(f"{self._out} += b'\\xff'")
        with source.block("else:"):
            self._run.append(_Fixed("b", "1"))
            self._struct(fields, nested)
            self._flush()

    def _tags(self, tagged: list[Field], message: str) -> None:
        if not tagged:
            self._run.append(_Fixed("x", ""))
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
        """
        Return the condition under which a tagged field is sent: as in Kafka, only if its value is not the default.
        """
        if isinstance(field.kind, type):
            return f"({value} is not None and {value} != {self._source.refer(_blank(field.kind))})"
        if isinstance(field.kind, Array):
            return f"{value}"
        if field.default is None:
            return f"{value} is not None"
        return f"{value} != {field.default!r}"

    def _length(self, size: str, format_: str) -> None:
        """Generate code that writes a length or count.  The value of the expression `size` is -1 for null."""
        self._run.append(_Length(size) if self._is_flexible else _Fixed(format_, size))

    def _flush(self) -> None:
        run, self._run = self._run, []
        if not run:
            return
        source = self._source
        lengths = [item.size for item in run if isinstance(item, _Length)]
        if not lengths:
            source.line(f"{self._out} += {self._packed(run)}")
        elif len(run) == 1:
            source.line(
                f"{self._out} += small_uvarints[{lengths[0]} + 1] if {lengths[0]} < 127 else {_uvarint(run[0])}"
            )
        else:
            with source.block(f"if {' and '.join(f'{size} < 127' for size in lengths)}:"):
                source.line(f"{self._out} += {self._packed(run)}")
            with source.block("else:"):
                for item in run:
                    packed = _uvarint(item) if isinstance(item, _Length) else self._packed([item])
                    source.line(f"{self._out} += {packed}")

    def _packed(self, run: list["_Fixed | _Length | _Numbers"]) -> str:
        """Return an expression for the bytes of the run, which is correct if all lengths in the run are below 127."""
        formats, arguments, counts = [""], [], []
        for item in run:
            if isinstance(item, _Numbers):
                formats += [item.format, ""]
                arguments.append(f"*{item.values}")
                counts.append(item.count)
            elif isinstance(item, _Length):
                formats[-1] += "B"
                arguments.append(f"{item.size} + 1")
            else:
                formats[-1] += item.format
                if item.format != "x":
                    arguments.append(item.value)
        if counts:
            return f"{self._source.refer(_Packers(*formats))}[{', '.join(counts)}]({', '.join(arguments)})"
        if not arguments:
            return repr(bytes(len(run)))
        return f"{self._source.struct_method('pack', formats[0])}({', '.join(arguments)})"


def _uvarint(item: "_Fixed | _Length | _Numbers") -> str:
    assert isinstance(item, _Length)
    return f"uvarint({item.size} + 1)"
