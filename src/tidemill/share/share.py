"""The durable state of one share group on one partition.

It changes only when a SHARE or LOG_START command is committed, so replicas that have applied the same entries have
equal states.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidemill.share.interval_map import IntervalMap, joined
from tidemill.share.record_status import NEVER_DELIVERED, RecordState, RecordStatus, Run
from tidemill.share.share_row import Letter


class Removed(NamedTuple):
    """What a share group lost when retention removed records."""

    unread: int = 0  # removed offsets that were neither finished nor dead
    letters: int = 0  # dead records whose dead letter had no producer id and sequence yet


@dataclass(slots=True, kw_only=True)
class Share:
    """
    The group's status of the records at or above `start`.  All records below `start` are finished.

    `start` never moves back, and never passes a record that is not finished, unless retention removes that record.
    """

    number: int  # unique within the partition, and never reused
    group: str
    incarnation: int
    state_epoch: int
    start: int
    runs: IntervalMap[RecordStatus] = field(default_factory=lambda: IntervalMap(NEVER_DELIVERED))
    letters: dict[int, Letter] = field(default_factory=dict)  # by offset: dead letters not known to be written
    expired_unread: int = 0  # offsets that retention removed while they were neither finished nor dead

    @property
    def tracked_count(self) -> int:
        """The number of runs and of letters, which determine how much memory the share needs."""
        return len(self.runs) + len(self.letters)

    def unfinished(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ascending intervals (first, end) of offsets whose records are neither finished nor dead."""
        for run_first, run_end, status in self.runs.cover(first, end):
            if status.state == RecordState.AVAILABLE:
                yield run_first, run_end

    def growth(self, decided: Sequence[Run]) -> int:
        """
        Return by how many runs the share grows, at most, if these decisions are applied.  They ascend.

        Decisions from the start on that finish records add no run, because the start moves.
        """
        growth = 0
        for first, end, status in joined(decided):
            covered = sum(1 for _ in self.runs.within(first, end))
            remaining = self._continues(first) + self._continues(end)
            is_finished = first <= self.start and status.is_finished
            growth += (0 if is_finished else 1) + remaining - covered
        return growth

    def _continues(self, offset: int) -> bool:
        """Return whether a run contains the record at `offset` and the one before."""
        if offset <= self.start:
            return False
        run = self.runs.at(offset - 1, offset + 1)
        return run.end > offset and run.value != self.runs.default

    def set_runs(self, runs: Iterable[Run]) -> None:
        """Apply decided statuses.  Offsets below the start are ignored: they are finished."""
        applied = [
            run if run.first >= self.start else run._replace(first=self.start) for run in runs if run.end > self.start
        ]
        self.runs.assign_all(applied)
        for first, end, status in applied if self.letters else ():
            if status.state != RecordState.ARCHIVING:
                for offset in [offset for offset in self.letters if first <= offset < end]:
                    del self.letters[offset]
        self._advance()

    def assign_letters(self, letters: Iterable[Letter]) -> None:
        """
        Store the producer id, sequence and target of dead letters that are about to be produced.  Letters for records
        that are not dead are ignored.
        """
        for letter in letters:
            if letter.offset in self.letters or self._is_archiving(letter.offset):
                self.letters[letter.offset] = letter

    def letters_written(self, offsets: Iterable[int]) -> None:
        """Mark dead records as finished, because their dead letters are written."""
        for offset in offsets:
            self.letters.pop(offset, None)
            if self._is_archiving(offset):
                dead = self.runs.get(offset)
                self.runs.assign(offset, offset + 1, dead._replace(state=RecordState.ARCHIVED))
        self._advance()

    def log_starts_at(self, log_start: int) -> Removed:
        """
        Drop the state of records below the log start, which retention has removed.

        The `letters` are kept: each may have been produced already, and producing it must be completed.
        """
        if log_start <= self.start:
            return Removed()
        unread, letters = log_start - self.start, 0
        for run in self.runs.within(self.start, log_start):
            if run.value.is_finished:
                unread -= run.end - run.first
            elif run.value.state == RecordState.ARCHIVING:
                unread -= run.end - run.first
                letters += run.end - run.first - sum(run.first <= offset < run.end for offset in self.letters)
        self.runs.drop_below(log_start)
        self.start = log_start
        self.expired_unread += unread
        self._advance()
        return Removed(unread, letters)

    def _is_archiving(self, offset: int) -> bool:
        return offset >= self.start and self.runs.get(offset).state == RecordState.ARCHIVING

    def _advance(self) -> None:
        """Move the start past the finished records at it."""
        for run in self.runs:
            if run.first != self.start or not run.value.is_finished:
                break
            self.start = run.end
        self.runs.drop_below(self.start)
