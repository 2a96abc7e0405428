"""Watches the free space of the data directory's disk, so that appends are refused before the disk is full.

What is refused never enters the log.  What is in the journal can still be written to the segments: `FREE_BYTES_MIN` is
left over and above the bytes that wait for this.
"""

from typing import Final

from tidemill.storage.store import Store
from tidemill.telemetry.event_log import EventLog
from tidemill.telemetry.metrics import Metrics

FREE_BYTES_MIN: Final = 256 << 20  # beside what the journal has not written back yet


class FreeSpace:
    def __init__(self, store: Store, metrics: Metrics, events: EventLog) -> None:
        self._store = store
        self._metrics = metrics
        self._events = events
        self.problem: str | None = None
        """Why nothing may be appended now, as a message for clients; None while there is room."""

    def check(self) -> None:
        """Compare the free bytes with the bytes that are needed; called a few times a second."""
        free = self._store.disk.free_space()
        wanted = self._store.journal.used + FREE_BYTES_MIN
        is_full = free < wanted
        if is_full != self._metrics.is_disk_full:
            self._metrics.is_disk_full = is_full
            log = self._events.warning if is_full else self._events.event
            log("disk full" if is_full else "disk has room again", free_bytes=free, wanted_bytes=wanted)
        self._metrics.disk_free_bytes = free
        self.problem = (
            f"{free} B are free on the disk of log.dirs, {wanted} are needed: free some, or lower retention"
            if is_full
            else None
        )
