"""A snapshot of a partition of `__consumer_offsets`: its state, written again at the end of its own log.

The records of a chunk are computed when they are asked for, and the host appends them before anything else: so each is
as new as its place in the log, and whatever changes afterwards is written behind it.  What did not exist when the
snapshot began need not be in it: its record lies behind the snapshot's beginning anyway.  When all chunks are appended
the host appends the end record, and only when that has committed may the log begin at the snapshot's first record.
A leader that is lost on the way leaves a run without an end: it changes nothing, and the next leader begins a new one.
"""

from tidemill.coordinator.group.log_records import (
    OffsetKey,
    SnapshotEnd,
    group_metadata,
    offset_commit,
    snapshot_end,
)
from tidemill.coordinator.group.state import LoggedState
from tidemill.coordinator.result import LogRecord

CHUNK_RECORDS_MAX = 1_000  # about 100 kB of offsets: one append, far below a batch's bound and a turn's patience
CHUNK_BYTES_MAX = 512 * 1024  # a chunk ends with the record that reaches it; a group's record may be 1 MB


class SnapshotChunks:
    """Yields lists of records.  `record_count` is how many there were so far."""

    def __init__(self, state: LoggedState, records_max: int = CHUNK_RECORDS_MAX) -> None:
        self._state = state
        self._records_max = records_max
        self._groups = [*dict.fromkeys((*state.groups, *state.offsets.group_ids()))]
        self._groups.reverse()
        self._group_id = ""
        self._keys: list[tuple[str, int]] = []  # of that group, still to be written
        self.record_count = 0

    def __iter__(self) -> "SnapshotChunks":
        return self

    def __next__(self) -> list[LogRecord]:
        chunk: list[LogRecord] = []
        byte_count = 0
        while len(chunk) < self._records_max and byte_count < CHUNK_BYTES_MAX:
            record = self._next_record()
            if record is None:
                break
            chunk.append(record)
            byte_count += len(record.key) + len(record.value or b"")
        if not chunk:
            raise StopIteration
        self.record_count += len(chunk)
        return chunk

    def end_record(self, first_offset: int, now_ms: int) -> LogRecord:
        """To append behind the last chunk; `first_offset` is that of the first chunk's first record."""
        return snapshot_end(
            SnapshotEnd(first_offset=first_offset, record_count=self.record_count, written_at_ms=now_ms)
        )

    def _next_record(self) -> LogRecord | None:
        """Of what is still there: what was deleted since the beginning has its tombstone behind it."""
        while True:
            while self._keys:
                topic, partition = self._keys.pop()
                committed = self._state.offsets.of_group(self._group_id).get((topic, partition))
                if committed is not None:
                    key = OffsetKey(group_id=self._group_id, topic=topic, partition=partition)
                    return offset_commit(key, committed)
            if not self._groups:
                return None
            self._group_id = self._groups.pop()
            self._keys = list(self._state.offsets.of_group(self._group_id))
            metadata = self._state.groups.get(self._group_id)
            if metadata is not None:
                return group_metadata(self._group_id, metadata)
