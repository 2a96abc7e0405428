"""Watches the free space on the disk of the data directory, so that appends are refused before the disk is full.

Rows that are already in the journal must still be written to the segments.  So appends are refused as soon as the free
space drops below the bytes in the journal plus `FREE_BYTES_MIN`.
"""

from typing import Final

from tidemill.storage.store import Store
from tidemill.telemetry.event_log import EventLog
from tidemill.telemetry.metrics import Metrics

FREE_BYTES_MIN: Final = 256 << 20  # must stay free, in addition to room for the bytes in the journal
RELEASE_BYTES_MIN: Final = 64 << 20  # as above, for released records: while they cannot leave, their disk stays full


class FreeSpace:
    def __init__(self, store: Store, metrics: Metrics, events: EventLog) -> None:
        self._store = store
        self._metrics = metrics
        self._events = events
        self.may_release = True  # whether there is room for records of timer topics that are due
        self.problem: str | None = None
        """The reason why appends are refused now, as a message for clients; None while there is enough space."""

    def check(self) -> None:
        """Compare the number of free bytes with the number needed.  Called a few times a second."""
        free = self._store.disk.free_space()
        wanted = self._store.journal.used + FREE_BYTES_MIN
        is_full = free < wanted
        self.may_release = free >= self._store.journal.used + RELEASE_BYTES_MIN
        if is_full != self._metrics.is_disk_full:
            self._metrics.is_disk_full = is_full
            log = self._events.error if is_full else self._events.event
            log("disk full" if is_full else "disk has room again", free_bytes=free, wanted_bytes=wanted)
        self._metrics.disk_free_bytes = free
        self._metrics.disk_needed_bytes = wanted
        self.problem = (
            f"{free} B are free on the disk of log.dirs, {wanted} are needed: free some, or lower retention"
            if is_full
            else None
        )
