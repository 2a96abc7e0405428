"""How the log changes what waits of a timer partition, and how changes are encoded until they are applied.

A replica reads a batch when it appends it, while its bytes are in memory, and applies what it has read at commit.  In
between, the changes are part of the shard's state in checkpoints:

    log index     8
    kind          1   1 arrived, 2 kept, 3 released, 4 decided; + 128: committed, but not applied yet
    length        4   of the body
    body          …   1: count 4, rows of the index; each record with an id: its number among them 4, flags 1 (1 it only
                         cancels, 2 it has a schedule), hash of the id 16
                      2: rows of the index
                      3: append time 8; arrivals, 8 each
                      4: a TIMER command with one section

Integers are big-endian.
"""

from collections.abc import Sequence
from struct import Struct, error
from typing import Final, NamedTuple

from tidemill.timer.due_row import ROW, ROW_BYTES, unpack_rows
from tidemill.timer.timer_command import Decision, decode_command, encode_command
from tidemill.timer.timer_headers import ID_HASH_BYTES
from tidemill.timer.waiting_set import TimerArrival

COMMITTED: Final = 128
ONLY_CANCELS: Final = 1
IS_RECURRING: Final = 2
_HEAD: Final = Struct(">QBI")
_COUNT: Final = Struct(">I")
_NAMED: Final = Struct(f">IB{ID_HASH_BYTES}s")
_ARRIVAL: Final = Struct(">Q")
_TIME: Final = Struct(">q")


class Arrived(NamedTuple):
    """Records were produced."""

    rows: bytes  # of the index, one for each
    timers: Sequence[TimerArrival] = ()  # those that have ids, in order

    @property
    def record_count(self) -> int:
        return len(self.rows) // ROW_BYTES


class Relocated(NamedTuple):
    """Records were moved to the kept log."""

    rows: bytes


class Released(NamedTuple):
    """Records became visible to consumers."""

    arrivals: Sequence[int]
    append_time: int


class Decided(NamedTuple):
    """Records were cancelled or rescheduled."""

    decision: Decision


Change = Arrived | Relocated | Released | Decided
_KINDS: Final = (Arrived, Relocated, Released, Decided)


class LoggedChange(NamedTuple):
    log_index: int
    change: Change
    is_committed: bool = False


def encode_changes(logged: Sequence[LoggedChange]) -> bytes:
    parts = [_COUNT.pack(len(logged))]
    for index, change, is_committed in logged:
        body = _body(change)
        kind = _KINDS.index(type(change)) + 1
        parts += (_HEAD.pack(index, kind | COMMITTED * is_committed, len(body)), body)
    return b"".join(parts)


def decode_changes(data: bytes) -> list[LoggedChange]:
    """Raise struct.error if the bytes are corrupt."""
    (count,), at = _COUNT.unpack_from(data), _COUNT.size
    found = []
    for _ in range(count):
        index, kind, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if length > len(data) - at:
            raise error(f"a change of {length} B; {len(data) - at} B are left")
        found.append(LoggedChange(index, _change(kind & ~COMMITTED, data[at : at + length]), bool(kind & COMMITTED)))
        at += length
    if at != len(data):
        raise error(f"{len(data) - at} B follow the last change")
    return found


def _body(change: Change) -> bytes:
    if isinstance(change, Arrived):
        named = [
            _NAMED.pack(it.at, it.only_cancels * ONLY_CANCELS | it.is_recurring * IS_RECURRING, it.timer_id)
            for it in change.timers
        ]
        return b"".join([_COUNT.pack(change.record_count), change.rows, *named])
    if isinstance(change, Relocated):
        return change.rows
    if isinstance(change, Released):
        return _TIME.pack(change.append_time) + b"".join(map(_ARRIVAL.pack, change.arrivals))
    return encode_command([change.decision])


def _change(kind: int, body: bytes) -> Change:
    if kind == 1:
        return _arrived(body)
    if kind == 2:
        return Relocated(body)
    if kind == 3:
        (append_time,) = _TIME.unpack_from(body)
        return Released([number for (number,) in _ARRIVAL.iter_unpack(body[_TIME.size :])], append_time)
    if kind == 4:
        (decision,) = decode_command(body)
        return Decided(decision)
    raise error(f"a change of kind {kind}")


def _arrived(body: bytes) -> Arrived:
    (count,) = _COUNT.unpack_from(body)
    end = _COUNT.size + count * ROW_BYTES
    if end > len(body):
        raise error(f"{count} rows of arrivals do not fit into {len(body)} B")
    rows = body[_COUNT.size : end]
    timers = []
    for at, flags, timer_id in _NAMED.iter_unpack(body[end:]):
        due_ms, *_ = ROW.unpack_from(rows, at * ROW_BYTES)
        timers.append(TimerArrival(at, due_ms, timer_id, bool(flags & ONLY_CANCELS), bool(flags & IS_RECURRING)))
    return Arrived(rows, timers)


def kept_arrivals(rows: bytes) -> list[int]:
    """Return the arrivals of rows, in their order."""
    return [row.arrival for row in unpack_rows(rows)]
