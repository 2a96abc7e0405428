"""ReplicatedCore: the protocol of a state machine that is replicated through one partition's log.

A core is pure: values in, values out.  It decides what to append, and its logged state changes only in `replay`.  The
host (`hosted_partition.py`) appends, waits for commits, keeps timers and sends replies:

    replay… ─▶ loaded ─▶ decide │ expire │ snapshot ─▶ … ─▶ drain         replay follows each accepted append

The host replays the records of a Result before it calls the core again.  On loss of leadership it calls `drain` and
drops the core; the next leader builds another one from the log.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from tidemill.coordinator.result import Key, Result, Waiter
from tidemill.coordinator.timestamps import Timestamps

RequestT = TypeVar("RequestT")
RequestT_contra = TypeVar("RequestT_contra", contravariant=True)
RecordT = TypeVar("RecordT")


class ReplicatedCore(Protocol[RequestT_contra, RecordT]):
    @property
    def is_atomic(self) -> bool:
        """
        Whether the records of one Result must take effect together.  If so, the host appends them as one batch,
        whatever its size; otherwise it splits them at the bounds of a batch.
        """
        ...

    # The log.

    def encode(self, record: RecordT) -> tuple[bytes | None, bytes | None]:
        """Return the key and value that the log stores."""
        ...

    def decode(self, key: bytes | None, value: bytes | None) -> RecordT:
        """Return the record stored as key and value.  ValueError: no such record is known."""
        ...

    def replay(self, records: Sequence[RecordT], end_offset: int) -> None:
        """
        Change the logged state: while loading, and when an append was accepted.  `end_offset` is the first offset
        behind the records.  ValueError: the records are malformed.
        """
        ...

    # Decisions.

    def loaded(self, timestamps: Timestamps) -> Result[RecordT]:
        """Start deciding: the whole log has been replayed.  Called once, before any of the methods below."""
        ...

    def decide(self, request: RequestT_contra, waiter: Waiter, timestamps: Timestamps) -> Result[RecordT]:
        """Answer a request: `waiter` is returned with its reply, in this Result or in a later one."""
        ...

    def expire(self, key: Key, timestamps: Timestamps) -> Result[RecordT]:
        """Handle a deadline that an earlier Result set.  The call may come early or late."""
        ...

    def drain(self, error_code: int) -> tuple[tuple[Waiter, object], ...]:
        """Return a reply with `error_code` for every waiter that is still owed one.  The core is dropped then."""
        ...

    def appends(self, request: RequestT_contra) -> bool:
        """Whether the request may append.  If so, the host refuses it while the disk is full."""
        ...

    def needs_current_metadata(self, request: RequestT_contra) -> bool:
        """Whether the request must be refused while this broker's cluster image may be stale."""
        ...

    # Snapshots.

    def snapshot(self, first_offset: int, append_time: int) -> Iterator[Sequence[RecordT]]:
        """
        Return the state as records, in chunks; the last chunk ends with a record that closes the snapshot.

        The host appends one chunk per turn of the event loop, and other requests are decided before and between the
        chunks: each chunk is computed when it is taken.  Everything that is appended from this call on lies at
        `first_offset` or behind it, and everything before it is deleted when the snapshot is committed.
        """
        ...

    @property
    def snapshot_size(self) -> int:
        """How many records a snapshot holds, or the last one held: it sets how often a snapshot is worth its cost."""
        ...

    @property
    def snapshot_first_offset(self) -> int | None:
        """The first offset of the newest closed snapshot that was replayed: the log may begin there.  None: no such."""
        ...
