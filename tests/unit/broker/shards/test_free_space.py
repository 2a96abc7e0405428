"""Appends are refused before the disk is full."""

import json
from types import SimpleNamespace
from typing import Any, cast

from tidemill.broker.shards.free_space import FREE_BYTES_MIN, FreeSpace
from tidemill.storage.store import Store
from tidemill.telemetry.event_log import EventLog
from tidemill.telemetry.metrics import Metrics

JOURNAL_BYTES = 1 << 20


class Watched:
    def __init__(self) -> None:
        self.free_bytes = FREE_BYTES_MIN + JOURNAL_BYTES
        self.lines: list[str] = []
        self.metrics = Metrics()
        disk = SimpleNamespace(free_space=lambda: self.free_bytes)
        store: Any = SimpleNamespace(disk=disk, journal=SimpleNamespace(used=JOURNAL_BYTES))
        events = EventLog(self.lines.append, lambda: 0, as_json=True)
        self.free_space = FreeSpace(cast(Store, store), self.metrics, events)


def test_the_bytes_of_the_journal_must_fit_beside_the_reserve() -> None:
    """
    The free space must be at least FREE_BYTES_MIN plus the bytes in the journal.  With one byte less, appends are
    refused, and the message says how many bytes are needed.
    """
    watched = Watched()
    watched.free_space.check()
    enough = watched.free_space.problem

    watched.free_bytes -= 1
    watched.free_space.check()

    assert enough is None
    assert watched.free_space.problem is not None and f"{FREE_BYTES_MIN + JOURNAL_BYTES} are needed" in (
        watched.free_space.problem
    )


def test_a_full_disk_is_logged_when_it_begins_and_when_it_ends() -> None:
    """
    One event is logged when the disk becomes full, and one when it has room again.  The metrics are updated at each
    check.
    """
    watched = Watched()
    for free_bytes in (0, 0, FREE_BYTES_MIN + JOURNAL_BYTES, FREE_BYTES_MIN + JOURNAL_BYTES):
        watched.free_bytes = free_bytes
        watched.free_space.check()

    logged = [(line["level"], line["event"]) for line in map(json.loads, watched.lines)]
    assert [("error", "disk full"), ("info", "disk has room again")] == logged
    assert (False, FREE_BYTES_MIN + JOURNAL_BYTES) == (watched.metrics.is_disk_full, watched.metrics.disk_free_bytes)
