"""The result of a coordinator's decision: records to append, replies to send, and deadlines to set.

The host appends `records` in order and replays them.  It sends `replies` when all records appended so far are
committed, including these; if there are no new records, it must also be confirmed that this broker was still the leader
after the request arrived.  If the append fails, this broker is no longer the leader.  The host then sends an error for
each request in `replies`, sends the error replies that the coordinator's `drain` returns, drops the coordinator, and
rebuilds it by replay.  Decisions are never undone in memory.
"""

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

Waiter = object  # the host's handle for a request, returned with the reply; opaque to a coordinator, never None
Key = tuple[str, ...]  # names a deadline; the host keeps one timer per key
RecordT = TypeVar("RecordT")


class LogRecord(NamedTuple):
    """A record of a coordinator's partition.  A record without a value is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(slots=True)
class Result(Generic[RecordT]):
    """What the host must do, in the order of the fields."""

    records: tuple[RecordT, ...] = ()  # to append to the coordinator's partition; may fill more than one batch
    replies: tuple[tuple[Waiter, object], ...] = ()  # to this or earlier requests; sent once the records commit
    deadlines: tuple[tuple[Key, int | None], ...] = ()  # (key, monotonic ms at which to call `expire`; None: cancel)
