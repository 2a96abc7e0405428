"""
A cache of the newest batches of all partitions.  It is bounded, except for batches that have not been written back yet.
"""

from collections import deque
from typing import Final

from tidemill.raft.entry import Entry
from tidemill.storage.disk import Buffer

Tail = dict[int, Buffer]  # the batches of one partition by base offset

BATCH_OVERHEAD_BYTES: Final = 430  # memory used by a batch's Python objects; it dominates for small batches


class TailCache:
    """
    A first-in, first-out cache.  A batch that has not been written back yet (its entry still has a payload) is not
    evicted.
    """

    __slots__ = ("_batches", "_gone", "bytes", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0  # the memory of all cached batches, with `BATCH_OVERHEAD_BYTES` for each
        self._batches: deque[tuple[Tail, Entry, Buffer]] = deque()
        self._gone: dict[int, Tail] = {}  # forgotten tails by `id`, which is unique while this dict references the tail

    def add(self, tail: Tail, entry: Entry) -> None:
        payload = entry.payload
        assert payload is not None, f"{entry} has no bytes to keep"
        tail[entry.base_offset] = payload
        self._batches.append((tail, entry, payload))
        self.bytes += len(payload) + BATCH_OVERHEAD_BYTES
        if self.bytes > self.bytes_max:
            self.evict()

    def evict(self) -> None:
        while self.bytes > self.bytes_max and self._batches:
            tail, entry, payload = self._batches[0]
            if entry.payload is not None:
                return
            self._batches.popleft()
            self.bytes -= len(payload) + BATCH_OVERHEAD_BYTES
            if tail.get(entry.base_offset) is payload:
                del tail[entry.base_offset]

    def forget(self, tail: Tail) -> None:
        """Drop the batches of a closed partition; `sweep` frees their memory."""
        tail.clear()
        self._gone[id(tail)] = tail

    def sweep(self) -> None:
        """Free the batches of all forgotten tails in one pass.  Called a few times a second."""
        if not self._gone:
            return
        kept: deque[tuple[Tail, Entry, Buffer]] = deque()
        for batch in self._batches:
            if id(batch[0]) in self._gone:
                self.bytes -= len(batch[2]) + BATCH_OVERHEAD_BYTES
            else:
                kept.append(batch)
        self._batches = kept
        self._gone.clear()
