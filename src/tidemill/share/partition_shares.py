"""All share groups of one partition.

Applying a committed row cannot fail: a section for a removed share, or for offsets below a share's start, changes
nothing.
"""

from collections.abc import Iterable, Mapping

from tidemill.share.share import Removed, Share
from tidemill.share.share_row import AssignLetters, CloseShare, LettersWritten, OpenShare, Section, SetRuns


class PartitionShares:
    """The shares of a partition, by group and by number."""

    def __init__(self, shares: Iterable[Share] = (), next_number: int = 1) -> None:
        self.by_number: dict[int, Share] = {share.number: share for share in shares}
        self.next_number = next_number
        self._by_group = {share.group: share for share in self.by_number.values()}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartitionShares):
            return NotImplemented
        return (self.next_number, self.by_number) == (other.next_number, other.by_number)

    def of_group(self, group: str) -> Share | None:
        return self._by_group.get(group)

    @property
    def is_unused(self) -> bool:
        """Whether no share group has ever read the partition."""
        return self.next_number == 1

    def apply(self, section: Section) -> None:
        """Apply a section of a committed row."""
        if isinstance(section, OpenShare):
            self._open(section)
            return
        share = self.by_number.get(section.share)
        if share is None:
            return
        match section:
            case CloseShare():
                if share.incarnation <= section.incarnation:
                    self._remove(share)
            case SetRuns():
                share.set_runs(section.runs)
            case AssignLetters():
                share.assign_letters(section.letters)
            case LettersWritten():
                share.letters_written(section.offsets)

    def log_starts_at(self, log_start: int) -> Mapping[str, Removed]:
        """Drop the state of records below the log start.  Return what each group has lost, if anything."""
        removed = {share.group: share.log_starts_at(log_start) for share in self.by_number.values()}
        return {group: lost for group, lost in removed.items() if any(lost)}

    def _open(self, section: OpenShare) -> None:
        old = self._by_group.get(section.group)
        if old is not None:
            if (section.incarnation, section.state_epoch) <= (old.incarnation, old.state_epoch):
                return
            self._remove(old)
        opened = Share(
            number=self.next_number,
            group=section.group,
            incarnation=section.incarnation,
            state_epoch=section.state_epoch,
            start=section.start,
        )
        self.next_number += 1
        self.by_number[opened.number] = self._by_group[opened.group] = opened

    def _remove(self, share: Share) -> None:
        del self.by_number[share.number], self._by_group[share.group]
