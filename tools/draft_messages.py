"""Draft `wire/messages/*.py` from the schemas of the Kafka protocol that kafka-python contains.

    python tools/draft_messages.py            write every message file
    python tools/draft_messages.py heartbeat  print one

The schemas (JSON with comments) have names, types, versions, defaults and tags.  `message_notes.py` has the rest: a
sentence for each API, and the changes of a version that do not concern fields.  Run `ruff check --fix` and `ruff
format` on the result.
"""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from textwrap import wrap
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from message_notes import NOTES, STRUCT_NAMES, Note

TARGET = Path(__file__).parent.parent / "src" / "tidemill" / "wire" / "messages"

TYPES = {
    "bool": ("BOOL", "bool", False),
    "int8": ("INT8", "int", 0),
    "int16": ("INT16", "int", 0),
    "uint16": ("UINT16", "int", 0),
    "int32": ("INT32", "int", 0),
    "int64": ("INT64", "int", 0),
    "string": ("STRING", "str", ""),
    "bytes": ("BYTES", "bytes", b""),
    "uuid": ("UUID", "bytes", bytes(16)),
    "records": ("RECORDS", "Records", b""),
}


@dataclass(frozen=True)
class Span:
    """A range of versions, `first` and `last` included."""

    first: int
    last: int

    @staticmethod
    def parse(text: str, latest: int) -> "Span | None":
        if text == "none":
            return None
        first, separator, last = text.partition("-")
        if text.endswith("+"):
            return Span(int(text[:-1]), latest)
        return Span(int(first), int(last) if separator else int(first))

    def within(self, other: "Span") -> "Span | None":
        first, last = max(self.first, other.first), min(self.last, other.last)
        return Span(first, last) if first <= last else None


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def schema(name: str) -> dict[str, Any]:
    text = resources.files("kafka.protocol.schemas").joinpath("resources", f"{name}.json").read_text()
    kept = [line for line in text.splitlines() if not line.lstrip().startswith("//")]
    loaded: dict[str, Any] = json.loads("\n".join(kept))
    return loaded


class Draft:
    """The message file of one API."""

    def __init__(self, api: str) -> None:
        self.note: Note = NOTES[api]
        self.api = api
        self.name = snake_case(api)
        self.schemas = {side: schema(api + side) for side in ("Request", "Response")}
        self.latest = int(self.schemas["Request"]["validVersions"].rpartition("-")[2])
        oldest = int(self.schemas["Request"]["validVersions"].partition("-")[0])
        self.versions = Span(self.note.oldest if self.note.oldest is not None else oldest, self.latest)
        flexible = Span.parse(self.schemas["Request"]["flexibleVersions"], self.latest)
        self.flexible_from = flexible.first if flexible else None
        self.imports: set[str] = set()
        self.side = "Request"

    def text(self) -> str:
        body: list[str] = []
        for side, content in self.schemas.items():
            self.side = side
            for common in reversed(content.get("commonStructs", [])):  # Kafka names the outer struct first
                name = self.struct_name(common["name"], common["name"])
                body += ["", "", *self.struct(name, common, self.versions, indent="")]
            body += ["", "", *self.struct(side, content, self.versions, indent="")]
        body += ["", "", self.declaration()]
        return "\n".join([*self.docstring(), "", *self.import_lines(), *body, ""])

    def declaration(self) -> str:
        return (
            f"API = Api(key={self.schemas['Request']['apiKey']}, "
            f"versions=range({self.versions.first}, {self.latest + 1}), flexible_from={self.flexible_from}, "
            "request=Request, response=Response)"
        )

    def import_lines(self) -> Iterator[str]:
        if "Sequence" in self.imports:
            yield "from collections.abc import Sequence"
            yield ""
        topic = sorted(self.imports & {"NO_TOPIC_ID", "TopicId"})
        if topic:
            yield f"from tidemill.model.topic import {', '.join(topic)}"
        kinds = sorted(self.imports - {"Sequence", "NO_TOPIC_ID", "TopicId"})
        yield f"from tidemill.wire.primitives import {', '.join(kinds)}"
        yield "from tidemill.wire.schema import Api, Message, field"

    def docstring(self) -> Iterator[str]:
        first, last = self.versions.first, self.versions.last
        versions = f"v{first}" if first == last else f"v{first}-{last}"
        flexible = f", flexible from v{self.flexible_from}" if self.flexible_from is not None else ", never flexible"
        yield f'"""{self.note.title or self.api}: key {self.schemas["Request"]["apiKey"]}, {versions}{flexible}.'
        yield ""
        yield from self.note.sentence.splitlines()
        history = list(self.history())
        if history:
            yield ""
            yield from history
        yield '"""'

    def history(self) -> Iterator[str]:
        """Return a line for each version: its new fields by name, and its notes."""
        width = len(f"v{self.latest}")
        for version in range(self.versions.first, self.latest + 1):
            sides: dict[str, list[str]] = {}  # sides (request, response) by change; often both have it
            for side, content in self.schemas.items():
                came = self.changes(content, lambda span, v=version: span.first == v and v > self.versions.first)
                went = self.changes(content, lambda span, v=version: span.last == v - 1)
                if went and came:
                    sides.setdefault(f"{', '.join(came)} in place of {', '.join(went)}", []).append(side.lower())
                elif went or came:
                    change = f"without {', '.join(went)}" if went else ", ".join(came)
                    sides.setdefault(change, []).append(side.lower())
            said = [f"{' and '.join(names)}: {change}" for change, names in sides.items()]
            if version in self.note.versions:
                said.append(self.note.versions[version])
            if version == self.flexible_from and version > self.versions.first:
                said.append("flexible")
            if said:
                indent = " " * (width + 2)
                yield from wrap(
                    "; ".join(said), 118, initial_indent=f"{f'v{version}':<{width}}  ", subsequent_indent=indent
                )

    def changes(self, content: dict[str, Any], is_wanted: Any) -> list[str]:
        names: dict[str, None] = {}

        def walk(fields: list[dict[str, Any]]) -> None:
            for declared in fields:
                span = Span.parse(declared["versions"], self.latest)
                if span and is_wanted(span):
                    names[snake_case(declared["name"])] = None
                else:
                    walk(declared.get("fields", []))

        walk(content["fields"])
        for common in content.get("commonStructs", []):
            walk(common["fields"])
        return list(names)

    def struct(self, name: str, content: dict[str, Any], around: Span, indent: str) -> Iterator[str]:
        """Yield the lines of a class.  `around` is the range of versions in which the struct can be sent."""
        present = [
            (declared, within)
            for declared in content["fields"]
            if (span := Span.parse(declared["versions"], self.latest)) and (within := span.within(around))
        ]
        inner = indent + "    "
        yield f"{indent}class {name}(Message):"
        if not present:
            yield f'{inner}"""Without fields."""'
        for declared, span in present:
            if "fields" in declared:
                base = declared["type"].removeprefix("[]")
                yield from self.struct(self.struct_name(base, declared["name"]), declared, span, inner)
                yield ""
        for declared, span in present:
            yield inner + self.field(declared, span, around)

    def struct_name(self, struct: str, field_name: str) -> str:
        chosen = STRUCT_NAMES.get((self.api, struct)) or STRUCT_NAMES.get(("", field_name))
        if chosen:
            return chosen
        return field_name[:-3] + "y" if field_name.endswith("ies") else field_name.removesuffix("s")

    def field(self, declared: dict[str, Any], span: Span, around: Span) -> str:
        name = snake_case(declared["name"])
        nullable = Span.parse(declared.get("nullableVersions", "none"), self.latest)
        tagged = Span.parse(declared.get("taggedVersions", "none"), self.latest)
        kind, annotation, zero = self.kind(declared, name)
        is_tagged_struct = tagged is not None and zero is None
        arguments = [kind]
        if span.first > around.first:
            arguments.append(f"since={span.first}")
        if span.last < around.last:
            arguments.append(f"until={span.last + 1}")
        if nullable and nullable.first > span.first:
            arguments.append(f"nullable_since={nullable.first}")
        if tagged:
            arguments.append(f"tag={declared['tag']}")
            if tagged.first > span.first:
                arguments.append(f"tagged_since={tagged.first}")
        if nullable or is_tagged_struct:
            annotation += " | None"
        default = self.default(
            declared, name, is_always=span == around, is_nullable=bool(nullable) or is_tagged_struct, zero=zero
        )
        if default is not None:
            arguments.append(f"default={default}")
        return f"{name}: {annotation} = field({', '.join(arguments)})"

    def kind(self, declared: dict[str, Any], name: str) -> tuple[str, str, object]:
        """Return the kind of the field, its annotation, and Kafka's default (None for a struct)."""
        is_array = declared["type"].startswith("[]")
        base = declared["type"].removeprefix("[]")
        zero: object
        if base in TYPES:
            kind, annotation, zero = TYPES[base]
            self.imports.add(kind)
            if base == "records":
                annotation = "memoryview" if self.side == "Request" else "Records"
                self.imports |= {"Records"} if self.side == "Response" else set()
            if base == "uuid" and "topic_id" in name:
                annotation, zero = "TopicId", "NO_TOPIC_ID"
                self.imports.add("TopicId")
        else:
            kind = annotation = self.struct_name(base, declared["name"] if "fields" in declared else base)
            zero = None
        if is_array:
            self.imports |= {"array", "Sequence"}
            return f"array({kind})", f"Sequence[{annotation}]", ()
        return kind, annotation, zero

    def default(
        self, declared: dict[str, Any], name: str, *, is_always: bool, is_nullable: bool, zero: object
    ) -> str | None:
        given = declared.get("default")
        if given is not None:
            if given == "null":
                return "None"
            if given in ("true", "false", True, False):
                return str(given).capitalize()
            if declared["type"] == "string":
                return repr(given)
            return str(int(str(given), 0)) if int(str(given), 0) < 1 << 16 else hex(int(str(given), 0))
        is_optional = (
            not is_always
            or "tag" in declared
            or name == "throttle_time_ms"
            or (is_nullable and self.side == "Response")
        )
        if not is_optional:
            return None
        if is_nullable:
            return "None"
        if zero == "NO_TOPIC_ID":
            self.imports.add("NO_TOPIC_ID")
            return "NO_TOPIC_ID"
        if zero == bytes(16):
            return "bytes(16)"
        return repr(zero)


def main(arguments: list[str]) -> None:
    for api in NOTES:
        if snake_case(api) in arguments:
            print(Draft(api).text())
        elif not arguments:
            (TARGET / f"{snake_case(api)}.py").write_text(Draft(api).text())


if __name__ == "__main__":
    main(sys.argv[1:])
