"""Leader epochs of one partition: which offsets were written in which term.

KIP-101, KIP-279; rule A4 of `docs/raft.md`.  The table holds (epoch, start offset, log index), ascending in all
columns.  When the first entry of a term is appended to the shard, every partition gets a row that starts at its end
offset, whether or not the entry is a batch of that partition.  Truncating the entry removes the row.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1
OFFSET_MAX: Final = (1 << 63) - 1


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int
    log_index: int


def uncovered(starts: list[EpochStart], term_start: tuple[int, int], end_offset: int) -> list[EpochStart]:
    """
    Return the table after a truncation.  `term_start` describes the term of the last remaining entry: the log index of
    that term's first entry, and the term.  If a later, truncated epoch with the same start offset had replaced the row
    of that term, add that row again, starting at the end offset.
    """
    first_index, term = term_start
    latest = starts[-1].epoch if starts else UNDEFINED_EPOCH
    return [*starts, EpochStart(term, end_offset, first_index)] if latest < term and term else starts


def meeting_offset(
    ours: Sequence[tuple[int, int]], our_end: int, theirs: Sequence[tuple[int, int]], their_end: int
) -> int | None:
    """
    Return the offset up to which two logs of a partition are identical, given their tables of (epoch, start offset);
    None if they share no record.  An epoch has one leader, which truncates nothing during it, so if two logs both hold
    an offset that was written in the same epoch, they are identical up to that offset.  KIP-101.
    """
    their_spans = {epoch: (start, end) for epoch, start, end in _spans(theirs, their_end)}
    for epoch, start, end in reversed(_spans(ours, our_end)):
        if epoch in their_spans:
            their_start, their_stop = their_spans[epoch]
            if max(start, their_start) < min(end, their_stop):
                return min(end, their_stop)
    return None


def _spans(starts: Sequence[tuple[int, int]], end_offset: int) -> list[tuple[int, int, int]]:
    """Return (epoch, start, end) for each epoch."""
    ends = [start for _, start in starts[1:]] + [end_offset]
    return [(epoch, start, end) for (epoch, start), end in zip(starts, ends, strict=False)]


class LeaderEpochs:
    """The table of one partition.  Other threads read `starts`, so it is replaced and never changed in place."""

    __slots__ = ("starts",)

    def __init__(self, starts: list[EpochStart] | None = None) -> None:
        self.starts = starts or []

    @property
    def latest(self) -> int:
        return self.starts[-1].epoch if self.starts else UNDEFINED_EPOCH

    def begin(self, epoch: int, start_offset: int, log_index: int) -> None:
        """Add a row for `epoch`.  It replaces a row with the same start offset, whose epoch has no records."""
        assert epoch > self.latest, f"epoch {epoch} after {self.latest}"
        kept = [start for start in self.starts if start.start_offset != start_offset]
        self.starts = [*kept, EpochStart(epoch, start_offset, log_index)]

    def truncate(self, log_index: int) -> None:
        """Remove the rows that were added by entries with a log index of at least `log_index`."""
        self.starts = [start for start in self.starts if start.log_index < log_index]

    def advance(self, log_start_offset: int) -> None:
        """
        Drop the rows below the log start; the row that covers the log start is kept, and then starts at the log start.
        """
        covering = bisect_right(self.starts, log_start_offset, key=lambda start: start.start_offset) - 1
        if covering >= 0:
            kept = self.starts[covering:]
            kept[0] = EpochStart(kept[0].epoch, log_start_offset, kept[0].log_index)
            self.starts = kept

    def span_at(self, offset: int) -> tuple[int, int]:
        """
        Return the epoch of `offset`, which is UNDEFINED_EPOCH if the table starts after it, and the start offset of the
        next epoch.
        """
        starts = self.starts
        at = bisect_right(starts, offset, key=lambda start: start.start_offset)
        epoch = starts[at - 1].epoch if at else UNDEFINED_EPOCH
        return epoch, starts[at].start_offset if at < len(starts) else OFFSET_MAX

    def span_from(self, offset: int) -> tuple[int, int]:
        """
        Return the epoch of `offset` and the start offset of the next epoch.  If the log start has moved beyond
        `offset`, so that the table starts after it, return the values at the table's start.
        """
        starts = self.starts
        return LeaderEpochs(starts).span_at(max(offset, starts[0].start_offset) if starts else offset)

    def end_offset(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """
        Return (epoch, end offset) for the largest epoch that is at most `epoch`, for OffsetForLeaderEpoch.  The
        argument `end_offset` is the partition's end offset.  If `epoch` is newer than all epochs in the table, return
        (UNDEFINED_EPOCH, UNDEFINED_OFFSET); if it is older than all of them, return `epoch` and the table's first start
        offset.
        """
        if epoch == UNDEFINED_EPOCH or not self.starts or epoch > self.latest:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, end_offset
        at = bisect_right(self.starts, epoch, key=lambda start: start.epoch)
        if at == 0:
            return epoch, self.starts[0].start_offset
        return self.starts[at - 1].epoch, self.starts[at].start_offset
