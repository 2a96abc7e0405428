"""A dead letter as `tidemill dlq show` prints it: lines for people, an object for programs."""

from collections.abc import Iterator
from typing import Any, Final

from tidemill.cli.letter import Letter
from tidemill.cli.output import or_dash
from tidemill.cli.queue_records import moment
from tidemill.cli.record_json import bytes_as_json
from tidemill.model.dead_letters import PREFIX

CHARACTERS_MAX: Final = 400  # of a key, a value or a header; an object for programs has all of them

_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))


def as_json(letter: Letter, topic: str, now_ms: int) -> dict[str, Any]:
    origin = letter.origin
    return {
        "topic": topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp": letter.timestamp_ms,
        "age_ms": letter.age_ms(now_ms),
        "origin": {
            "topic": origin.topic,
            "partition": origin.partition,
            "offset": origin.offset,
            "timestamp": origin.timestamp_ms,
        },
        "group": origin.group,
        "cause": origin.cause,
        "message": origin.message,
        "attempts": origin.attempts,
        "omitted": origin.omitted,
        "key": bytes_as_json(letter.key),
        "value": bytes_as_json(letter.value),
        "headers": [[name, bytes_as_json(value)] for name, value in _own_headers(letter)],
    }


def lines(letter: Letter, topic: str, now_ms: int) -> Iterator[tuple[str, object]]:
    """Yield names and values."""
    origin, age_ms = letter.origin, letter.age_ms(now_ms)
    yield "letter", f"{topic}-{letter.partition}, offset {letter.offset}"
    yield "origin", _origin(letter)
    yield "group", _plain(origin.group)
    yield "cause", origin.cause or _plain(origin.message)
    yield "attempts", origin.attempts
    if letter.timestamp_ms is not None and age_ms is not None:
        yield "age", f"{age(age_ms)} ({moment(letter.timestamp_ms)})"
    if origin.omitted is not None:
        yield "omitted", f"the content of the record: {_plain(origin.omitted)}"
    yield "key", shown(letter.key)
    yield "value", shown(letter.value)
    for name, value in _own_headers(letter):
        yield "header", f"{_plain(name)}: {shown(value)}"


def print_lines(letter: Letter, topic: str, now_ms: int, *, is_first: bool) -> None:
    """Print the letter, after an empty line unless it is the first one."""
    if not is_first:
        print()
    for name, value in lines(letter, topic, now_ms):
        print(f"{name:8}  {or_dash(value)}")


def age(milliseconds: int) -> str:
    """Return a duration in its largest unit: 12s, 5m, 2h or 7d, as `--where` reads them."""
    unit, size = next(((unit, size) for unit, size in _UNITS if milliseconds >= size), _UNITS[-1])
    return f"{milliseconds // size}{unit}"


def shown(value: bytes | None) -> str:
    """Return bytes as text on one line, cut after CHARACTERS_MAX; what is not printable is escaped."""
    if value is None:
        return "-"
    text = value[: CHARACTERS_MAX * 4].decode("utf-8", "backslashreplace")
    is_cut = len(text) > CHARACTERS_MAX or len(value) > CHARACTERS_MAX * 4
    return _plain(text[:CHARACTERS_MAX]) + (f"… ({len(value):,} bytes)" if is_cut else "")


def _plain(text: str | None) -> str:
    """Return text that a terminal cannot mistake for control sequences."""
    return "-" if text is None else "".join(it if it.isprintable() else ascii(it)[1:-1] for it in text)


def _origin(letter: Letter) -> str:
    origin = letter.origin
    if origin.topic is None:
        return "-"
    partition = "" if origin.partition is None else f"-{origin.partition}"
    offset = "" if origin.offset is None else f", offset {origin.offset}"
    at = "" if origin.timestamp_ms is None else f", {moment(origin.timestamp_ms)}"
    return f"{_plain(origin.topic)}{partition}{offset}{at}"


def _own_headers(letter: Letter) -> Iterator[tuple[str, bytes | None]]:
    """Yield the headers of the dead record."""
    return ((name, value) for name, value in letter.headers if not name.startswith(PREFIX))
