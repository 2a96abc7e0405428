"""A shard's uncommitted entries, and the bounds on their bytes.

A leader's log must not grow without limit while its followers lag.  A producer with acks=all waits for the commit, so
lag slows it down.  With acks=0 or 1, the entries in the first `NEAR_BYTES_MAX` after the commit index are acknowledged
before they commit; a later entry is acknowledged only when the commit index is that close to it.  Producers that time
out send their batches again, so the leader appends nothing while `BYTES_MAX` are uncommitted.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from tidemill.raft.entry import Entry

NEAR_BYTES_MAX: Final = 32 << 20  # eight replication windows (`raft/progress.py`)
BYTES_MAX: Final = 128 << 20  # half of the default bound on the bytes of all requests in flight
ENTRY_BYTES: Final = 400  # the memory that an entry uses in addition to its batch


class Uncommitted:
    __slots__ = ("_far", "_near", "_near_bytes", "bytes")

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._near: deque[Entry] = deque()  # the first `NEAR_BYTES_MAX` of entries, or one entry that is larger
        self._far: deque[Entry] = deque()  # the entries after those in `_near`
        self._near_bytes = 0
        self.bytes = 0
        self.extend(entries)

    @property
    def near_index(self) -> int | None:
        """The log index of the last entry that may be acknowledged for acks=0 and 1; None if all may be."""
        return self._near[-1].index if self._far else None

    def extend(self, entries: Iterable[Entry]) -> None:
        near, far = self._near, self._far
        for entry in entries:
            size = ENTRY_BYTES + entry.payload_bytes
            self.bytes += size
            if far or (self._near_bytes + size > NEAR_BYTES_MAX and near):
                far.append(entry)
            else:
                near.append(entry)
                self._near_bytes += size

    def committed(self, index: int) -> list[Entry]:
        """Remove and return the entries up to `index`."""
        near, far = self._near, self._far
        taken = []
        while near and near[0].index <= index:
            entry = near.popleft()
            taken.append(entry)
            size = ENTRY_BYTES + entry.payload_bytes
            self._near_bytes -= size
            self.bytes -= size
            while far and (self._near_bytes + ENTRY_BYTES + far[0].payload_bytes <= NEAR_BYTES_MAX or not near):
                near.append(far.popleft())
                self._near_bytes += ENTRY_BYTES + near[-1].payload_bytes
        return taken

    def truncate(self, from_index: int) -> None:
        kept = [entry for entry in (*self._near, *self._far) if entry.index < from_index]
        self.clear()
        self.extend(kept)

    def clear(self) -> None:
        self._near.clear()
        self._far.clear()
        self._near_bytes = self.bytes = 0
