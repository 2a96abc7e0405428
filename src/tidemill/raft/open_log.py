"""A replica's log, from its own point of view: what the shell keeps, less what it is about to cut, and what it is about
to be handed.
"""

from tidemill.raft.entry import Entry
from tidemill.raft.log_view import LogView


class OpenLog:
    __slots__ = ("_cut_from", "_kept", "_kept_last", "_new")

    def __init__(self, kept: LogView) -> None:
        self._kept = kept
        self._kept_last = kept.last_index  # of what the shell keeps, this still belongs to the log
        self._cut_from: int | None = None
        self._new: list[Entry] = []

    @property
    def first_index(self) -> int:
        return self._kept.first_index

    @property
    def last_index(self) -> int:
        return self._kept_last + len(self._new)

    @property
    def last_term(self) -> int:
        return self._new[-1].term if self._new else self._kept.term_at(self._kept_last)

    @property
    def last_append_time(self) -> int:
        return self._new[-1].append_time if self._new else self._kept.last_append_time

    @property
    def has_changed(self) -> bool:
        """There is something to hand out."""
        return bool(self._new) or self._cut_from is not None

    def term_at(self, index: int) -> int:
        """For `first_index − 1` up to `last_index`."""
        at = index - self._kept_last - 1
        return self._new[at].term if at >= 0 else self._kept.term_at(index)

    def entry_at(self, index: int) -> Entry:
        at = index - self._kept_last - 1
        return self._new[at] if at >= 0 else self._kept.entry_at(index)

    def holds(self, index: int, term: int) -> bool:
        """Whether the log is alike with another that has an entry of `term` at `index`, up to there."""
        return self.first_index - 1 <= index <= self.last_index and self.term_at(index) == term

    def append(self, entry: Entry) -> None:
        self._new.append(entry)

    def truncate(self, from_index: int) -> None:
        if from_index > self._kept_last:
            del self._new[from_index - self._kept_last - 1 :]
            return
        self._new.clear()
        self._kept_last = from_index - 1
        self._cut_from = from_index if self._cut_from is None else min(self._cut_from, from_index)

    def installed(self) -> None:
        """What the shell keeps begins anew, behind a snapshot."""
        assert not self.has_changed, "entries that were not handed out are lost"
        self._kept_last = self._kept.last_index

    def take(self) -> tuple[int | None, list[Entry]]:
        """The index to cut from, and what to append then: handed out once, and from then on the shell's."""
        cut_from, self._cut_from = self._cut_from, None
        new, self._new = self._new, []
        self._kept_last += len(new)
        return cut_from, new

    def probable_match(self, index: int, term: int) -> int:
        """The last index, not above `index`, whose term is not above `term`: fast back-off after a mismatch."""
        index = min(index, self.last_index)
        while index >= self.first_index and self.term_at(index) > term:
            index -= 1
        return max(index, 0)
