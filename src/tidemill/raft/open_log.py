"""A replica's log as the core sees it: the host's log, and the changes that `ready` has not handed out yet.

    first_index            commit_index        _kept_last            last_index
    ├── in the host's log ───┴───────────────────┼── new, not handed out ──┤
                            durable_index may be anywhere; after an install it can be lower than commit_index

A truncation that has not been handed out hides the end of the host's log: `_kept_last` is the last entry in the host's
log that still belongs to this log.

Invariants:
- Entries up to `commit_index` are never truncated.
- The entries up to `durable_index` are on this replica's disk exactly as the log now holds them.  A truncation lowers
  `durable_index`.
- `memberships` follows the entries: appending a change puts it in force, and truncating it restores the previous
  membership.
"""

from tidemill.raft.entry import COMMAND, Command, Entry
from tidemill.raft.log_view import LogView
from tidemill.raft.memberships import Memberships
from tidemill.raft.voters import Membership


class OpenLog:
    __slots__ = ("_kept", "_kept_last", "_new", "_truncate_from", "commit_index", "durable_index", "memberships")

    def __init__(self, kept: LogView, memberships: Memberships, commit_index: int) -> None:
        self._kept = kept
        self._kept_last = kept.last_index
        self._truncate_from: int | None = None
        self._new: list[Entry] = []
        self.memberships = memberships
        self.commit_index = commit_index
        self.durable_index = kept.last_index  # recovery has synced the whole log

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
    def stable_index(self) -> int:
        """The index of the last entry that is both committed and durable on this replica's disk."""
        committed, durable = self.commit_index, self.durable_index
        return committed if committed < durable else durable

    @property
    def has_changed(self) -> bool:
        """Whether `take` would return anything."""
        return bool(self._new) or self._truncate_from is not None

    def term_at(self, index: int) -> int:
        """Return the term of the entry at `index`, from `first_index - 1` up to `last_index`."""
        at = index - self._kept_last - 1
        return self._new[at].term if at >= 0 else self._kept.term_at(index)

    def entry_at(self, index: int) -> Entry:
        at = index - self._kept_last - 1
        return self._new[at] if at >= 0 else self._kept.entry_at(index)

    def holds(self, index: int, term: int) -> bool:
        """
        Return whether the log holds the entry of `term` at `index`.  If it does, it matches every other log that holds
        that entry, up to and including the entry (the log matching property).
        """
        return self.first_index - 1 <= index <= self.last_index and self.term_at(index) == term

    def probable_match(self, index: int, term: int) -> int:
        """
        Return the last index that is at most `index` and whose entry has a term of at most `term`.  After a mismatch,
        the leader goes back that far in one step, instead of one entry at a time.
        """
        index = min(index, self.last_index)
        while index >= self.first_index and self.term_at(index) > term:
            index -= 1
        return max(index, 0)

    # Methods that change the log.

    def append(self, entry: Entry) -> None:
        self._new.append(entry)
        if entry.kind == COMMAND:
            self._note_membership(entry)

    def _note_membership(self, entry: Entry) -> None:
        if entry.payload and entry.payload[0] == Command.VOTERS:
            self.memberships.append(entry.index, Membership.decode(entry.payload, 1))

    def append_missing(self, entries: tuple[Entry, ...]) -> None:
        """
        Append the leader's `entries` that are missing from the log.  Truncate only where an entry differs, because a
        delayed message may end before the log does.
        """
        for at, entry in enumerate(entries):
            if entry.index <= self.last_index:
                if self.term_at(entry.index) == entry.term:
                    continue
                assert entry.index > self.commit_index, f"{entry} contradicts what is committed"
                self.truncate(entry.index)
            for new in entries[at:]:
                self.append(new)
            return

    def truncate(self, from_index: int) -> None:
        self.durable_index = min(self.durable_index, from_index - 1)
        self.memberships.truncate(from_index)
        if from_index > self._kept_last:
            del self._new[from_index - self._kept_last - 1 :]
            return
        self._new.clear()
        self._kept_last = from_index - 1
        self._truncate_from = from_index if self._truncate_from is None else min(self._truncate_from, from_index)

    def commit(self, index: int) -> None:
        if index > self.commit_index:
            self.commit_index = index
            self.memberships.commit(index)

    def installed(self, index: int, membership: Membership, *, is_damaged: bool) -> None:
        """
        Record that the host's log now begins after a snapshot at `index`.  Until the snapshot is durable,
        `durable_index` is the stable index from before the install, because an install truncates only later entries.
        For a damaged log, it is also lower than `index`.
        """
        assert not self.has_changed, "entries that were not handed out are lost"
        self._kept_last = self._kept.last_index
        assert self._kept_last == index >= self.commit_index, f"the log ends at {self._kept_last}"
        self.durable_index = self.stable_index
        if is_damaged:
            self.durable_index = min(self.durable_index, index - 1)
        self.memberships.installed(index, membership)
        self.commit_index = index

    def take(self) -> tuple[int | None, list[Entry]]:
        """Hand out the index to truncate from, if any, and the entries to append afterwards."""
        truncate_from, self._truncate_from = self._truncate_from, None
        new, self._new = self._new, []
        self._kept_last += len(new)
        return truncate_from, new
