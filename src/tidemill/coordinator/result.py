"""What a coordinator decided: records to append, replies that are owed, deadlines to keep.

The host appends `records` in order, replays them, and hands out `replies` when the log is committed up to where they
were computed (and, for a read, leadership was confirmed after the request came).  If the append fails, this broker is
no longer the leader: the host answers `replies` and what the coordinator's `drain` gives with an error, drops the
coordinator, and rebuilds it by replay.  No undo code exists.
"""

from dataclasses import dataclass
from typing import NamedTuple

Waiter = object  # whatever the host passes with a request; opaque to a coordinator, never None
Key = tuple[str, ...]  # names a deadline; the host keeps one timer per key


class LogRecord(NamedTuple):
    """A record of a coordinator's partition.  Without a value it is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(slots=True)
class Result:
    records: tuple[LogRecord, ...] = ()  # to append to the coordinator's partition; may fill more than one batch
    replies: tuple[tuple[Waiter, object], ...] = ()  # for this or any earlier request; owed once the records commit
    deadlines: tuple[tuple[Key, int | None], ...] = ()  # the host calls expire(key, now) then; None cancels
