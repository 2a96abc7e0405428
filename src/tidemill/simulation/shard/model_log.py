"""A model of a replica's log without files.  A node has two: the log in memory and the log on disk.

`state` models the segments: it holds the entries before `entries`.  `copied` holds the entries that an install has
copied but not journaled yet; in the log on disk, only the copied entries that a sync of the files has made durable.
"""

from dataclasses import dataclass, field

from tidemill.raft.entry import COMMAND, Command, Entry
from tidemill.raft.ready import Vote
from tidemill.raft.voters import Membership
from tidemill.simulation.invariant_violation import InvariantViolation

Record = tuple[int, int, bytes]  # index, term, payload


@dataclass(frozen=True, slots=True)
class Damage:
    """A row that marks damage: the files hold only the first `keep` entries.  The journal's rows are intact."""

    keep: int


@dataclass(frozen=True, slots=True)
class Installing:
    """A row that begins an install: the files hold the first `keep` entries of the snapshot; the others follow."""

    index: int
    term: int
    keep: int


@dataclass(frozen=True, slots=True)
class Installed:
    index: int
    term: int
    membership: Membership


Row = Vote | int | Entry | Damage | Installing | Installed  # an int is an index to truncate from


def control_rows_first(queued: list[Row]) -> tuple[list[Row], list[Row]]:
    """Split the queue into the next block and the rows that must wait because the ring has no room for entries.

    This models `storage/journal/row_queue.py`.
    """
    control_rows: list[Row] = []
    waiting: list[Row] = []
    for row in queued:
        if isinstance(row, Vote | int):
            control_rows.append(row)
        if isinstance(row, int):
            waiting = [it for it in waiting if isinstance(it, Entry) and it.index < row]
        elif isinstance(row, Entry):
            waiting.append(row)
        elif not isinstance(row, Vote):
            return queued, []  # rows of installs and damage must be written in queue order
    return control_rows, waiting


@dataclass(slots=True)
class ModelLog:
    """A log, in the memory or on the disk of a node."""

    first_index: int = 1
    base_term: int = 0
    entries: list[Entry] = field(default_factory=list)
    state: tuple[Record, ...] = ()  # the entries before `entries`, starting at index 1
    copied: tuple[Record, ...] = ()  # the entries after `state`, copied by an install and not journaled yet
    installing: tuple[int, int] | None = None
    vote: Vote = field(default_factory=lambda: Vote(0, None))
    memberships: list[tuple[int, Membership]] = field(default_factory=list)
    commit_index: int = 0
    is_damaged: bool = False

    @property
    def last_index(self) -> int:
        return self.first_index + len(self.entries) - 1

    @property
    def last_append_time(self) -> int:
        return self.entries[-1].append_time if self.entries else 0

    @property
    def content(self) -> tuple[Record, ...]:
        """All entries that the files hold, starting at index 1."""
        rows = [] if self.is_damaged else self.entries
        return self.state + self.copied + tuple(_record(entry) for entry in rows)

    @property
    def count(self) -> int:
        """The number of entries in all parts of the log."""
        return len(self.state) + len(self.copied) + len(self.entries)

    def term_at(self, index: int) -> int:
        return self.base_term if index == self.first_index - 1 else self.entry_at(index).term

    def entry_at(self, index: int) -> Entry:
        assert index >= self.first_index, f"entry {index} is forgotten; {self.first_index} is the first"
        return self.entries[index - self.first_index]

    def holds(self, entry: Entry) -> bool:
        at = entry.index - self.first_index
        return 0 <= at < len(self.entries) and self.entries[at] is entry

    def put(self, row: Row) -> None:
        if isinstance(row, Vote):
            self.vote = row
        elif isinstance(row, int):
            del self.entries[row - self.first_index :]
            while self.memberships[-1][0] >= row:
                self.memberships.pop()
        elif isinstance(row, Damage):
            self.state, self.copied = self.content[: row.keep], ()
            self.is_damaged = True
        elif isinstance(row, Installing):
            self._begin_install(row)
        elif isinstance(row, Installed):
            self._install(row)
        else:
            assert row.index == self.last_index + 1, f"{row} does not follow {self.last_index}"
            self.entries.append(row)
            if row.kind == COMMAND and row.payload and row.payload[0] == Command.VOTERS:
                self.memberships.append((row.index, Membership.decode(row.payload, 1)))

    def _begin_install(self, row: Installing) -> None:
        """Drop the rows, but keep the index and term of the last row, which are compared in elections."""
        content = self.content
        if len(content) < row.keep:
            raise InvariantViolation(f"an install keeps {row.keep} entries of {len(content)} that are on disk")
        self.base_term = self.term_at(self.last_index)
        self.first_index = self.last_index + 1
        self.entries, self.copied = [], ()
        self.state = content[: row.keep]
        self.installing = (row.index, row.term)

    def _install(self, row: Installed) -> None:
        content = self.state + self.copied
        if not content or content[-1][:2] != (row.index, row.term):
            raise InvariantViolation(f"the snapshot at {row.index} was journaled, and its bytes end at {content[-1:]}")
        self.state, self.copied, self.entries = content, (), []
        self.first_index, self.base_term = row.index + 1, row.term
        self.memberships = [(row.index, row.membership)]
        self.commit_index = row.index
        self.installing = None
        self.is_damaged = False

    def forget(self, below: int) -> None:
        """
        Drop the entries below the index `below` from memory.  They are committed and durable, and stay in the files.
        """
        count = below - self.first_index
        if count <= 0:
            return
        forgotten, self.entries = self.entries[:count], self.entries[count:]
        self.state += tuple(_record(entry) for entry in forgotten)
        self.base_term = forgotten[-1].term
        self.first_index = below
        while len(self.memberships) > 1 and self.memberships[1][0] < below:
            del self.memberships[0]

    def copy(self) -> "ModelLog":
        """Return a copy in the state that the next start finds, without copied entries that have not been journaled."""
        return ModelLog(
            self.first_index,
            self.base_term,
            list(self.entries),
            self.state,
            (),
            self.installing,
            self.vote,
            list(self.memberships),
            self.commit_index,
            self.is_damaged,
        )


def _record(entry: Entry) -> Record:
    return entry.index, entry.term, bytes(entry.payload or b"")
