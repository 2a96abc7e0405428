"""The result of a coordinator's decision: records to append, replies that are due, deadlines to keep.

The host appends `records` in order, replays them, and sends `replies` when the log is committed up to the point from
which they were computed (and, for a read, when leadership was confirmed after the request arrived).  If the append
fails, this broker is no longer the leader: the host answers `replies` and what the coordinator's `drain` returns with
an error, drops the coordinator, and rebuilds it by replay.  There is no undo code.
"""

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

Waiter = object  # the host's handle of a request, returned with the reply; opaque to a coordinator, never None
Key = tuple[str, ...]  # names a deadline; the host keeps one timer per key
RecordT = TypeVar("RecordT")


class LogRecord(NamedTuple):
    """A record of a coordinator's partition.  Without a value it is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(slots=True)
class Result(Generic[RecordT]):
    """What the host must do, in the order of the fields."""

    records: tuple[RecordT, ...] = ()  # to append to the coordinator's partition; may fill more than one batch
    replies: tuple[tuple[Waiter, object], ...] = ()  # to this or an earlier request; due once the records commit
    deadlines: tuple[tuple[Key, int | None], ...] = ()  # the host calls expire(key, moment) then; None cancels
