"""What the members of a share group were told about each record."""

import threading
from collections import Counter
from collections.abc import Collection, Mapping

from tidemill.share.acknowledgement import Acknowledgement

NO_EFFECT = ("INVALID_RECORD_STATE", "INVALID_REQUEST", "SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH")
"""Errors after which an acknowledgement has certainly not been applied."""
RecordId = tuple[int, int]  # partition, offset
_FINAL = (Acknowledgement.ACCEPT, Acknowledgement.REJECT)


class Ledger:
    """All methods may be called from any thread."""

    def __init__(self, limit: int, key_distance: int | None = None) -> None:
        """
        A record may be delivered `limit` times.  With `key_distance`, the group delivers in the order of keys, and the
        records of a key are so many offsets apart.
        """
        self._lock = threading.Lock()
        self._limit = limit
        self._key_distance = key_distance
        self._last_counts: dict[RecordId, int] = {}  # the delivery count of the last delivery
        self._final: set[tuple[RecordId, int]] = set()  # deliveries, by delivery count, that were accepted or rejected
        self.accepted: Counter[RecordId] = Counter()  # confirmations of acceptances within the lock duration
        self.late: set[RecordId] = set()  # accepted or rejected, but possibly after the lock had expired
        self.rejected: set[RecordId] = set()  # the broker has confirmed it
        self.unknown: set[RecordId] = set()  # acknowledged at least once without a known outcome
        self.deliveries: Counter[RecordId] = Counter()
        self.counts: Counter[int] = Counter()  # deliveries by delivery count
        self.refusals: Counter[str] = Counter()
        self.renewed = 0  # records
        self.out_of_order: list[RecordId] = []  # delivered before an earlier record of their key was finished

    @property
    def worn_out(self) -> set[RecordId]:
        """The records that were delivered as often as the group permits."""
        return {record for record, count in self._last_counts.items() if count >= self._limit}

    def delivered(self, records: Collection[tuple[RecordId, int]]) -> None:
        """Note records and their delivery counts immediately after a member has received them."""
        with self._lock:
            for record, count in records:
                self.deliveries[record] += 1
                self.counts[count] += 1
                self._last_counts[record] = max(count, self._last_counts.get(record, 0))
                if self._key_distance is not None:
                    self._check_order(record, self._key_distance)

    def _check_order(self, record: RecordId, key_distance: int) -> None:
        """The record before this one with the same key was accepted or rejected, or has failed too often."""
        partition, offset = record
        before = (partition, offset - key_distance)
        count = self._last_counts.get(before)
        is_finished = count is not None and (count >= self._limit or (before, count) in self._final)
        if offset >= key_distance and not is_finished:
            self.out_of_order.append(record)

    def decided(self, decisions: Mapping[RecordId, Acknowledgement], counts: Mapping[RecordId, int]) -> None:
        """Note what a member is about to send about the deliveries with these counts."""
        with self._lock:
            self._final.update((it, counts[it]) for it, kind in decisions.items() if kind in _FINAL)

    def confirmed(self, decisions: Mapping[RecordId, Acknowledgement], *, is_late: bool) -> None:
        """
        Note acknowledgements that a broker has confirmed.  It also confirms a late one about a record that the group
        has finished meanwhile.
        """
        with self._lock:
            for record, kind in decisions.items():
                if kind not in _FINAL:
                    continue
                if is_late:
                    self.late.add(record)
                elif kind == Acknowledgement.ACCEPT:
                    self.accepted[record] += 1
                else:
                    self.rejected.add(record)

    def refused(self, decisions: Collection[RecordId], error: str) -> None:
        """Note acknowledgements that a broker has refused, or whose outcome is unknown."""
        with self._lock:
            self.refusals[error] += 1
            if error not in NO_EFFECT:
                self.unknown.update(decisions)

    def note_renewed(self, records: int) -> None:
        with self._lock:
            self.renewed += records
