"""The port through which a replica reads the log that its host keeps."""

from typing import Protocol

from tidemill.raft.entry import Entry


class LogView(Protocol):
    """
    The log as the host keeps it.

    The entire log is durable when a replica is opened on it.  Afterwards, the host immediately applies all changes that
    `Replica.ready` returns, even before they are durable, and every later read sees the changed log.
    """

    @property
    def first_index(self) -> int:
        """The first index whose entry is still in memory.  The term of the entry before it is also known."""
        ...

    @property
    def last_index(self) -> int:
        """The index of the last entry; 0 for an empty log."""
        ...

    @property
    def last_append_time(self) -> int:
        """The append time of the last entry; 0 for an empty log."""
        ...

    def term_at(self, index: int) -> int:
        """Return the term of the entry at `index`, from `first_index - 1` up to `last_index`; 0 for index 0."""
        ...

    def entry_at(self, index: int) -> Entry:
        """Return the entry at `index`, from `first_index` up to `last_index`."""
        ...
