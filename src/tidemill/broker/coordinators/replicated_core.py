"""ReplicatedCore: the protocol of a state machine that is replicated through one partition's log.

A core takes values and returns values.  It decides which records to append, and its logged state changes only in
`replay`.  The host (`hosted_partition.py`) appends, waits for commits, keeps timers and sends replies:

    replay… ─▶ loaded ─▶ decide │ expire │ snapshot ─▶ … ─▶ drain         replay follows each accepted append

The host replays the records of a Result before it calls the core again.  When leadership is lost, the host calls
`drain` and drops the core; the next leader loads a new core from the log.
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
        Whether the records of one Result must take effect together.  If so, the host appends them as one batch of any
        size; otherwise it splits them into batches of bounded size.
        """
        ...

    # Methods for the records in the log.

    def encode(self, record: RecordT) -> tuple[bytes | None, bytes | None]:
        """Return the key and value that the log stores."""
        ...

    def decode(self, key: bytes | None, value: bytes | None) -> RecordT:
        """
        Return the record that is stored as `key` and `value`.  Raises ValueError if the type of the record is unknown.
        """
        ...

    def replay(self, records: Sequence[RecordT], end_offset: int) -> None:
        """
        Apply `records` to the logged state, either while the log is being loaded or after an append.  `end_offset` is
        the offset after the last record.  Raises ValueError if the records are malformed.
        """
        ...

    # Methods that decide requests and deadlines.

    def loaded(self, timestamps: Timestamps) -> Result[RecordT]:
        """Prepare to decide: the entire log has been replayed.  Called once, before any of the methods below."""
        ...

    def decide(self, request: RequestT_contra, waiter: Waiter, timestamps: Timestamps) -> Result[RecordT]:
        """Decide `request`.  Return `waiter` together with the reply, in this Result or in a later one."""
        ...

    def expire(self, key: Key, timestamps: Timestamps) -> Result[RecordT]:
        """Handle a deadline that an earlier Result set.  The call may come early or late."""
        ...

    def drain(self, error_code: int) -> tuple[tuple[Waiter, object], ...]:
        """
        Return a reply with `error_code` for every waiter that has not been given a reply.  The host then drops the
        core.
        """
        ...

    def is_refused_when_full(self, request: RequestT_contra) -> bool:
        """
        Return whether the host must refuse `request` while the disk is full, because it may append and frees no space.
        """
        ...

    def needs_current_metadata(self, request: RequestT_contra) -> bool:
        """Return whether `request` must be refused while this broker's cluster image may be stale."""
        ...

    # Methods for snapshots of the logged state.

    def snapshot(self, first_offset: int, append_time: int) -> Iterator[Sequence[RecordT]]:
        """
        Return the logged state as records, in chunks; the last chunk ends with a record that closes the snapshot.

        The host appends one chunk per turn of the event loop.  Other requests are decided before and between the
        chunks, so each chunk must be computed only when the host takes it.  All records appended after this call have
        offsets of at least `first_offset`; all records below `first_offset` are deleted once the snapshot has
        committed.
        """
        ...

    @property
    def snapshot_size(self) -> int:
        """
        The number of records in a snapshot of the current state, or in the last snapshot.  The larger this number is,
        the less often snapshots are taken.
        """
        ...

    @property
    def snapshot_first_offset(self) -> int | None:
        """
        The first offset of the newest closed snapshot that has been replayed; the log may start there.  None if there
        is none.
        """
        ...
