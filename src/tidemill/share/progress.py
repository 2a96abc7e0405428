"""Counts how far a share group has processed the records of a partition."""

from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.share.claim import Decided, Held
from tidemill.share.interval_map import Interval
from tidemill.share.leases import Leases
from tidemill.share.record_status import RecordState, RecordStatus
from tidemill.share.share import Share


@dataclass(slots=True)
class Progress:
    """Numbers of offsets at or above the share's start.  Those of records without data count as well."""

    available: int = 0
    delayed: int = 0  # available only after their release time
    held: int = 0
    archiving: int = 0  # dead, without a dead letter yet

    def _add(self, status: RecordStatus, count: int, wall: int) -> None:
        if status.state == RecordState.AVAILABLE:
            if status.release_at > wall:
                self.delayed += count
            else:
                self.available += count
        elif status.state == RecordState.ARCHIVING:
            self.archiving += count


def progress(share: Share, leases: Leases | None, end: int, wall: int) -> Progress:
    """
    Return the counts for the offsets below `end`, the high watermark.  Without `leases`, no consumer holds records.

    An uncommitted decision counts as if it were committed.
    """
    counts = Progress()
    for run in _durable(share, share.start, end):
        counts._add(run.value, run.end - run.first, wall)
    for first, claim_end, claim in leases.claims() if leases is not None else ():
        for run in _durable(share, max(first, share.start), min(claim_end, end)):
            counts._add(run.value, run.first - run.end, wall)
            if isinstance(claim, Held):
                counts.held += run.end - run.first
            elif isinstance(claim, Decided):
                counts._add(claim.status, run.end - run.first, wall)
    return counts


def _durable(share: Share, first: int, end: int) -> Iterator[Interval[RecordStatus]]:
    """Yield the durable statuses of the offsets from `first` to `end`, including those that were never delivered."""
    for run in share.runs.within(first, end):
        if first < run.first:
            yield Interval(first, run.first, share.runs.default)
        yield run
        first = run.end
    if first < end:
        yield Interval(first, end, share.runs.default)
