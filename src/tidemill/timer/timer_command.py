"""The TIMER command: what the leader of a timer shard decides about records that wait, apart from releases.

A row holds sections; each concerns one partition.  All replicas apply them at commit, in the order of the log, so the
outcome of a cancel is judged there: a record whose release comes before it in the log was released already.

    command     1   5
    version     1   1
    sections    …   each: partition 4, operation 1, length of the body 4, body

    1 CANCEL          arrivals, 8 each
    2 CANCEL_IDS      hashes of ids, 16 each
    3 RESCHEDULE      each: arrival 8, due 8 in milliseconds since the epoch
    4 RESCHEDULE_IDS  each: hash of the id 16, due 8
    5 RECUR           arrival 8, occurrence that it follows 8, next occurrence 8

Integers are big-endian.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct, error
from typing import Final, NamedTuple

from tidemill.timer.timer_headers import ID_HASH_BYTES

TIMER: Final = 5  # the command's number; docs/formats/numbers.md
VERSION: Final = 1
_HEAD: Final = bytes((TIMER, VERSION))
_SECTION: Final = Struct(">IBI")
_ARRIVAL: Final = Struct(">Q")
_ID: Final = Struct(f">{ID_HASH_BYTES}s")
_ARRIVAL_DUE: Final = Struct(">Qq")
_RECUR: Final = Struct(">Qqq")
_ID_DUE: Final = Struct(f">{ID_HASH_BYTES}sq")


class UnknownTimerCommand(ValueError):
    """A newer version of the program has written the command."""


class Cancel(NamedTuple):
    partition: int
    arrivals: Sequence[int]


class CancelIds(NamedTuple):
    partition: int
    ids: Sequence[bytes]  # hashes


class Reschedule(NamedTuple):
    partition: int
    dues: Mapping[int, int]  # arrival → due time in ms


class RescheduleIds(NamedTuple):
    partition: int
    dues: Mapping[bytes, int]  # hash of an id → due time in ms


class Recur(NamedTuple):
    """The next occurrence of a record with a schedule, after one that was released or is skipped."""

    partition: int
    arrival: int
    after_ms: int
    next_ms: int  # `waiting_set.NOT_YET_KNOWN`: there is none


Decision = Cancel | CancelIds | Reschedule | RescheduleIds | Recur
_OPERATIONS: Final = (Cancel, CancelIds, Reschedule, RescheduleIds, Recur)


def encode_command(decisions: Iterable[Decision]) -> bytes:
    parts = [_HEAD]
    for it in decisions:
        body = _body(it)
        parts += (_SECTION.pack(it.partition, _OPERATIONS.index(type(it)) + 1, len(body)), body)
    return b"".join(parts)


def decode_command(payload: bytes | bytearray | memoryview) -> Iterator[Decision]:
    """Yield the decisions.  Raise UnknownTimerCommand, or struct.error if the bytes are corrupt."""
    if payload[1] != VERSION:
        raise UnknownTimerCommand(f"a TIMER command of version {payload[1]}; this program knows {VERSION}")
    at = len(_HEAD)
    while at < len(payload):
        partition, operation, length = _SECTION.unpack_from(payload, at)
        at += _SECTION.size
        if not 1 <= operation <= len(_OPERATIONS):
            raise UnknownTimerCommand(f"operation {operation} of a TIMER command")
        if length > len(payload) - at:
            raise error(f"a section of {length} B in a TIMER command; {len(payload) - at} B are left")
        yield _decision(partition, operation, bytes(payload[at : at + length]))
        at += length


def _body(decision: Decision) -> bytes:
    if isinstance(decision, Cancel):
        return b"".join(map(_ARRIVAL.pack, decision.arrivals))
    if isinstance(decision, CancelIds):
        return b"".join(decision.ids)
    if isinstance(decision, Reschedule):
        return b"".join(_ARRIVAL_DUE.pack(*it) for it in decision.dues.items())
    if isinstance(decision, Recur):
        return _RECUR.pack(decision.arrival, decision.after_ms, decision.next_ms)
    return b"".join(_ID_DUE.pack(*it) for it in decision.dues.items())


def _decision(partition: int, operation: int, body: bytes) -> Decision:
    if operation == 1:
        return Cancel(partition, [arrival for (arrival,) in _ARRIVAL.iter_unpack(body)])
    if operation == 2:
        return CancelIds(partition, [timer_id for (timer_id,) in _ID.iter_unpack(body)])
    if operation == 3:
        return Reschedule(partition, dict(_ARRIVAL_DUE.iter_unpack(body)))
    if operation == 5:
        return Recur(partition, *_RECUR.unpack(body))
    return RescheduleIds(partition, dict(_ID_DUE.iter_unpack(body)))
