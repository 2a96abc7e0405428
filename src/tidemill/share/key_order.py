"""Which records wait for an earlier record with the same key.

    add       a record has a key: it waits while an earlier record of its key is not finished
    finish    a record is finished: the next record of its key waits no more

So one record of each key is free at a time, the one with the smallest offset, and the records of a key are finished in
the order of their offsets.  Offsets that were never added are free: they have no key.
"""

from tidemill.share.interval_map import IntervalMap
from tidemill.share.opened_batches import KeyHash


class KeyOrder:
    """The unfinished records that have a key, as one linked list of offsets for each key."""

    def __init__(self) -> None:
        self._keys: dict[int, KeyHash] = {}  # by offset
        self._last: dict[KeyHash, int] = {}  # the greatest offset of each key
        self._before: dict[int, int] = {}  # by offset: the record of the same key for which the record waits
        self._after: dict[int, int] = {}  # by offset: the record of the same key that waits for the record
        self._waiting = IntervalMap(False)  # the offsets in `_before`

    def __len__(self) -> int:
        """The number of records in memory."""
        return len(self._keys)

    def add(self, offset: int, key: KeyHash) -> None:
        """Add an unfinished record.  Offsets ascend."""
        before = self._last.get(key)
        if before is not None:
            assert before < offset, "records are added in the order of their offsets"
            self._before[offset], self._after[before] = before, offset
            self._waiting.assign(offset, offset + 1, True)
        self._keys[offset] = key
        self._last[key] = offset

    def finish(self, first: int, end: int) -> None:
        """Remove the records from `first` up to, but not including, `end`."""
        offsets = range(first, end)
        for offset in offsets if len(offsets) < len(self._keys) else [it for it in self._keys if it in offsets]:
            key = self._keys.pop(offset, None)
            if key is None:
                continue
            before, after = self._before.pop(offset, None), self._after.pop(offset, None)
            if before is not None:
                self._waiting.assign(offset, offset + 1, False)
                self._after.pop(before)
            if before is not None and after is not None:
                self._before[after], self._after[before] = before, after
            elif after is not None:
                del self._before[after]
                self._waiting.assign(after, after + 1, False)
            elif before is not None:
                self._last[key] = before
            else:
                del self._last[key]

    def next_free(self, first: int, end: int) -> tuple[int, int] | None:
        """Return the first interval (first, end) of offsets whose records do not wait; None if there is none."""
        while first < end:
            waiting = self._waiting.at(first, end)
            if not waiting.value:
                return waiting.first, waiting.end
            first = waiting.end
        return None
