"""Snapshots of a partition of `__consumer_offsets`: the state is written again at the end of the partition's own log.

Each chunk is computed on demand, and the host appends it before any other record.  The chunk's records are therefore
current at their position in the log, and later changes follow them.  Groups and offsets created after the snapshot
began do not have to be in it, since the log contains their records after the snapshot's start.  After the last chunk,
the host appends the end record; once that is committed, the log may start at the snapshot's first record.  If the
leader changes before then, the incomplete snapshot is harmless, and the next leader begins a new one.
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
from tidemill.coordinator.share_group.log_records import RecordKey

CHUNK_RECORDS_MAX = 1_000  # usually about 100 kB of offsets: one append, well below the maximum batch size
CHUNK_BYTES_MAX = 512 * 1024  # the record that reaches the limit ends the chunk; a group's record may be 1 MB long


class SnapshotChunks:
    """An iterator over lists of records; `record_count` is the number of records yielded so far."""

    def __init__(self, state: LoggedState, records_max: int = CHUNK_RECORDS_MAX) -> None:
        self._state = state
        self._records_max = records_max
        self._groups = [*dict.fromkeys((*state.groups, *state.offsets.group_ids()))]
        self._groups.reverse()
        self._share_groups = [*state.share.group_ids()]
        self._share_groups.reverse()
        self._share_keys: list[RecordKey] = []  # keys of the current share group that have not been written yet
        self._group_id = ""
        self._keys: list[tuple[str, int]] = []  # offsets of `_group_id` that have not been written yet
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
        """Return the record to append after the last chunk.

        `first_offset` is the offset of the snapshot's first record.
        """
        return snapshot_end(
            SnapshotEnd(first_offset=first_offset, record_count=self.record_count, written_at_ms=now_ms)
        )

    def _next_record(self) -> LogRecord | None:
        """Return the next record of the state, or None at the end.

        Groups and offsets deleted since the snapshot began are left out: the log contains their tombstones after the
        snapshot's start.
        """
        while True:
            while self._keys:
                topic, partition = self._keys.pop()
                committed = self._state.offsets.of_group(self._group_id).get((topic, partition))
                if committed is not None:
                    key = OffsetKey(group_id=self._group_id, topic=topic, partition=partition)
                    return offset_commit(key, committed)
            if not self._groups:
                return self._next_share_record()
            self._group_id = self._groups.pop()
            self._keys = list(self._state.offsets.of_group(self._group_id))
            metadata = self._state.groups.get(self._group_id)
            if metadata is not None:
                return group_metadata(self._group_id, metadata)

    def _next_share_record(self) -> LogRecord | None:
        while True:
            while self._share_keys:
                record = self._state.share.record_of(self._share_keys.pop())
                if record is not None:
                    return record
            if not self._share_groups:
                return None
            self._share_keys = self._state.share.keys_of(self._share_groups.pop())
            self._share_keys.reverse()
