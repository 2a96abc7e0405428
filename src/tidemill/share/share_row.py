"""The SHARE command: the encoding of a share group leader's decisions in the shard's log.

One row contains the sections of all share groups of a shard that changed in one turn of the event loop.  A row contains
results (state, count, time) and needs neither configuration nor a clock, so all replicas build the same state.  Byte
table: `docs/formats/shares.md`.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import lru_cache
from struct import Struct, error
from typing import Final, NamedTuple

from tidemill.share.interval_map import Interval
from tidemill.share.record_status import Reason, RecordState, RecordStatus, Run

ROW_BYTES_MAX: Final = 64 << 10
SHARE: Final = 3  # the command's number; docs/formats/numbers.md
VERSION: Final = 1
NO_SHARE: Final = 0  # the share number in a section that opens a share, because the replicas assign the number
_SECTION: Final = Struct(">IIBI")  # partition, share number, operation, length of the body
_OPEN: Final = Struct(">QIQ")  # incarnation, state epoch, start; the group id follows
_CLOSE: Final = Struct(">Q")
_RUN: Final = Struct(">QIBH")  # first offset, number of offsets, state and reason, delivery count
_TIMED: Final = Struct(">QIBHQ")  # the fields of `_RUN`, and the release time
_LETTER: Final = Struct(">QQI16sI")
LETTER_BYTES: Final = _LETTER.size
_OFFSET: Final = Struct(">Q")
_RUN_OFFSETS_MAX: Final = (1 << 32) - 1
_ROW_HEAD: Final = bytes((SHARE, VERSION))
_SECTION_BYTES_MAX: Final = ROW_BYTES_MAX - len(_ROW_HEAD)


class _Operation(IntEnum):
    OPEN = 1
    CLOSE = 2
    RUNS = 3
    TIMED = 4
    LETTER = 5
    LETTERED = 6


_ITEM_BYTES: Final = {
    _Operation.RUNS: _RUN.size,
    _Operation.TIMED: _TIMED.size,
    _Operation.LETTER: _LETTER.size,
    _Operation.LETTERED: _OFFSET.size,
}


class OpenShare(NamedTuple):
    """
    The group reads the partition, starting at `start`.

    The new share replaces the group's existing share if its (incarnation, state epoch) is greater.  The coordinator
    assigns a new incarnation when the group begins to use the topic again after one of the two was deleted; the state
    epoch increases when an administrator sets offsets.
    """

    partition: int
    group: str
    incarnation: int
    state_epoch: int
    start: int


class CloseShare(NamedTuple):
    """The group no longer reads the partition.  A share with a greater incarnation is kept."""

    partition: int
    share: int
    incarnation: int


class SetRuns(NamedTuple):
    """Sets the status of records."""

    partition: int
    share: int
    runs: tuple[Run, ...]


class Letter(NamedTuple):
    """
    The producer id and sequence with which the dead letter of `offset` is produced, so that a retry is recognized as a
    duplicate.
    """

    offset: int
    producer_id: int
    sequence: int
    topic_id: bytes  # the id of the dead-letter topic, 16 bytes
    partition: int  # the partition of the dead-letter topic


class AssignLetters(NamedTuple):
    """Dead letters are about to be produced.  This section is committed before the first attempt."""

    partition: int
    share: int
    letters: tuple[Letter, ...]


class LettersWritten(NamedTuple):
    """Dead letters have been committed to the dead-letter topic."""

    partition: int
    share: int
    offsets: tuple[int, ...]


Section = OpenShare | CloseShare | SetRuns | AssignLetters | LettersWritten


class UnknownShareRow(Exception):
    """A row has a version or an operation that this version of Tidemill does not know."""


def encode_row(sections: Iterable[Section]) -> bytes:
    """Return the payload of one COMMAND entry."""
    return _ROW_HEAD + b"".join(map(_encoded, sections))


def encode_rows(sections: Iterable[Section]) -> list[tuple[bytes, int]]:
    """
    Return the payloads of COMMAND entries of at most ROW_BYTES_MAX that contain the sections in order, each with the
    number of sections that end in it.

    A section that does not fit is divided between its runs, letters or offsets.  So a leader that fails may leave a
    part of it: each run, letter or offset is valid without the others, and nothing else in a row depends on them.
    """
    rows: list[tuple[bytes, int]] = []
    parts, size, ended = [_ROW_HEAD], len(_ROW_HEAD), 0
    for section in sections:
        for encoded in _parts(_encoded(section)):
            if size + len(encoded) > ROW_BYTES_MAX:
                rows.append((b"".join(parts), ended))
                parts, size, ended = [_ROW_HEAD], len(_ROW_HEAD), 0
            parts.append(encoded)
            size += len(encoded)
        ended += 1
    return [*rows, (b"".join(parts), ended)]


def _parts(section: bytes) -> Iterator[bytes]:
    """Divide an encoded section into sections that fit into a row.  OPEN and CLOSE always fit."""
    if len(section) <= _SECTION_BYTES_MAX:
        yield section
        return
    partition, share, operation, _ = _SECTION.unpack_from(section)
    item = _ITEM_BYTES[operation]
    step = (_SECTION_BYTES_MAX - _SECTION.size) // item * item
    for at in range(_SECTION.size, len(section), step):
        body = section[at : at + step]
        yield _SECTION.pack(partition, share, operation, len(body)) + body


def decode_row(payload: bytes | bytearray | memoryview) -> Iterator[Section]:
    """
    Yield the sections of a SHARE command.

    Raise UnknownShareRow for a newer format, and struct.error if the bytes are corrupt.
    """
    if payload[1] != VERSION:
        raise UnknownShareRow(f"a SHARE command has version {payload[1]}; this program reads version {VERSION}")
    at = 2
    while at < len(payload):
        partition, share, operation, length = _SECTION.unpack_from(payload, at)
        at += _SECTION.size
        body = bytes(payload[at : at + length])
        if len(body) != length:
            raise error(f"a section of {length} B ends after {len(body)} B")
        yield _decoded(partition, share, operation, body)
        at += length


def run_fields(run: Run) -> tuple[int, int, int, int]:
    """Return the first offset, number of offsets, state byte and delivery count of a run."""
    status = run.value
    return run.first, run.end - run.first, status.state | status.reason << 4, status.delivery_count


def run_from(first: int, length: int, state: int, delivery_count: int, release_at: int = 0) -> Run:
    """Return the run with these fields.  Raise struct.error if the run is empty, or its state is unknown."""
    if not length:
        raise error(f"the run at offset {first} is empty")
    try:
        return Interval(first, first + length, _status(state, delivery_count, release_at))
    except ValueError as unknown:
        raise error(f"the run at offset {first} has the state byte {state:#04x}: {unknown}") from None


@lru_cache(1_024)  # most runs of a share have one of few statuses
def _status(state: int, delivery_count: int, release_at: int) -> RecordStatus:
    return RecordStatus(RecordState(state & 0xF), delivery_count, release_at, Reason(state >> 4))


def encode_letter(letter: Letter) -> bytes:
    return _LETTER.pack(*letter)


def decode_letters(data: bytes) -> tuple[Letter, ...]:
    """Return the letters in `data`.  Raise struct.error if `data` does not end at the end of a letter."""
    return tuple(Letter(*fields) for fields in _LETTER.iter_unpack(data))


def _encoded(section: Section) -> bytes:
    share = NO_SHARE
    match section:
        case OpenShare(partition, group, incarnation, state_epoch, start):
            operation, name = _Operation.OPEN, group.encode()
            body = _OPEN.pack(incarnation, state_epoch, start) + len(name).to_bytes(2) + name
        case CloseShare(partition, share, incarnation):
            operation, body = _Operation.CLOSE, _CLOSE.pack(incarnation)
        case SetRuns(partition, share, runs):
            is_timed = any(run.value.release_at for run in runs)
            operation = _Operation.TIMED if is_timed else _Operation.RUNS
            body = b"".join(_run_bytes(part, is_timed) for run in runs for part in _divided(run))
        case AssignLetters(partition, share, letters):
            operation, body = _Operation.LETTER, b"".join(map(encode_letter, letters))
        case LettersWritten(partition, share, offsets):
            operation, body = _Operation.LETTERED, b"".join(map(_OFFSET.pack, offsets))
    return _SECTION.pack(partition, share, operation, len(body)) + body


def _divided(run: Run) -> Iterator[Run]:
    """Split the run into parts whose lengths fit into the length field of a row."""
    if run.end - run.first <= _RUN_OFFSETS_MAX:
        yield run
        return
    for first in range(run.first, run.end, _RUN_OFFSETS_MAX):
        yield run._replace(first=first, end=min(run.end, first + _RUN_OFFSETS_MAX))


def _run_bytes(run: Run, is_timed: bool) -> bytes:
    return _TIMED.pack(*run_fields(run), run.value.release_at) if is_timed else _RUN.pack(*run_fields(run))


def _decoded(partition: int, share: int, operation: int, body: bytes) -> Section:
    match operation:
        case _Operation.OPEN:
            incarnation, state_epoch, start = _OPEN.unpack_from(body)
            name = body[_OPEN.size + 2 :]
            if len(name) != int.from_bytes(body[_OPEN.size : _OPEN.size + 2]):
                raise error("a group id does not end with its section")
            try:
                return OpenShare(partition, name.decode(), incarnation, state_epoch, start)
            except UnicodeDecodeError as problem:
                raise error(f"a group id is not UTF-8: {problem}") from None
        case _Operation.CLOSE:
            return CloseShare(partition, share, *_CLOSE.unpack(body))
        case _Operation.RUNS:
            return SetRuns(partition, share, tuple(run_from(*fields) for fields in _RUN.iter_unpack(body)))
        case _Operation.TIMED:
            return SetRuns(partition, share, tuple(run_from(*fields) for fields in _TIMED.iter_unpack(body)))
        case _Operation.LETTER:
            return AssignLetters(partition, share, decode_letters(body))
        case _Operation.LETTERED:
            return LettersWritten(partition, share, tuple(offset for (offset,) in _OFFSET.iter_unpack(body)))
    raise UnknownShareRow(f"a SHARE command has operation {operation}, which this program does not know")
