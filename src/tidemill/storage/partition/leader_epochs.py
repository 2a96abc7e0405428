"""Leader epochs of one partition: which offsets each term wrote.  KIP-101, KIP-279; `log.md` §8.

A table of (epoch, start offset, log index), both ascending.  It grows when the first entry of a term is appended to
the shard, at this partition's end offset, whether or not that entry is a record of it; it is cut with its rows.
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
    The table once later entries are gone.  The log's last term, (first index, term), may have been displaced by one of
    theirs that had the same start offset; then it is back, and that offset is the end.
    """
    first_index, term = term_start
    latest = starts[-1].epoch if starts else UNDEFINED_EPOCH
    return [*starts, EpochStart(term, end_offset, first_index)] if latest < term and term else starts


def meeting_offset(
    ours: Sequence[tuple[int, int]], our_end: int, theirs: Sequence[tuple[int, int]], their_end: int
) -> int | None:
    """
    Up to which offset two logs of a partition are alike, from their tables of (epoch, start offset); None when they
    share no record.  An epoch has one leader, which never truncates in it: who has the same offset of the same epoch
    has the same before it.  KIP-101.
    """
    their_spans = {epoch: (start, end) for epoch, start, end in _spans(theirs, their_end)}
    for epoch, start, end in reversed(_spans(ours, our_end)):
        if epoch in their_spans:
            their_start, their_stop = their_spans[epoch]
            if max(start, their_start) < min(end, their_stop):
                return min(end, their_stop)
    return None


def _spans(starts: Sequence[tuple[int, int]], end_offset: int) -> list[tuple[int, int, int]]:
    """(epoch, start, end) of each."""
    ends = [start for _, start in starts[1:]] + [end_offset]
    return [(epoch, start, end) for (epoch, start), end in zip(starts, ends, strict=False)]


class LeaderEpochs:
    __slots__ = ("starts",)

    def __init__(self, starts: list[EpochStart] | None = None) -> None:
        self.starts = starts or []  # never changed in place: readers' threads look into it

    @property
    def latest(self) -> int:
        return self.starts[-1].epoch if self.starts else UNDEFINED_EPOCH

    def begin(self, epoch: int, start_offset: int, log_index: int) -> None:
        """The first entry of `epoch` is appended; of several epochs with one start offset the newest is kept."""
        assert epoch > self.latest, f"epoch {epoch} after {self.latest}"
        kept = [start for start in self.starts if start.start_offset != start_offset]
        self.starts = [*kept, EpochStart(epoch, start_offset, log_index)]

    def truncate(self, log_index: int) -> None:
        """Entries from `log_index` on are gone."""
        self.starts = [start for start in self.starts if start.log_index < log_index]

    def advance(self, log_start_offset: int) -> None:
        """The entry that covers the log start is kept, moved up to it; those before it go."""
        covering = bisect_right(self.starts, log_start_offset, key=lambda start: start.start_offset) - 1
        if covering >= 0:
            kept = self.starts[covering:]
            kept[0] = EpochStart(kept[0].epoch, log_start_offset, kept[0].log_index)
            self.starts = kept

    def span_at(self, offset: int) -> tuple[int, int]:
        """The epoch that wrote `offset` (UNDEFINED_EPOCH before the table), and the first offset of the next one."""
        starts = self.starts
        at = bisect_right(starts, offset, key=lambda start: start.start_offset)
        epoch = starts[at - 1].epoch if at else UNDEFINED_EPOCH
        return epoch, starts[at].start_offset if at < len(starts) else OFFSET_MAX

    def span_from(self, offset: int) -> tuple[int, int]:
        """As `span_at`, of the first offset from there on that the table has.  It may be advanced meanwhile."""
        starts = self.starts
        return LeaderEpochs(starts).span_at(max(offset, starts[0].start_offset) if starts else offset)

    def end_offset(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """
        (epoch, end offset) of the largest epoch not above `epoch`, where `end_offset` is the partition's: what
        OffsetForLeaderEpoch answers.  Newer than the table is undefined; older is answered with the table's first
        start offset.
        """
        if epoch == UNDEFINED_EPOCH or not self.starts or epoch > self.latest:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, end_offset
        at = bisect_right(self.starts, epoch, key=lambda start: start.epoch)
        if at == 0:
            return epoch, self.starts[0].start_offset
        return self.starts[at - 1].epoch, self.starts[at].start_offset
