"""What a replica knows of a log that somebody else keeps."""

from typing import Protocol

from tidemill.raft.entry import Entry


class LogView(Protocol):
    """
    When a replica is opened, all of it is durable.  From then on it changes by what `Replica.ready` hands out, and at
    once: a later question is answered from the changed log.
    """

    @property
    def first_index(self) -> int:
        """The first index whose entry can still be read; the term of the one before it is known."""
        ...

    @property
    def last_index(self) -> int:
        """0 for an empty log."""
        ...

    @property
    def last_append_time(self) -> int:
        """Of its last entry; 0 for an empty log."""
        ...

    def term_at(self, index: int) -> int:
        """For `first_index − 1` up to `last_index`; 0 for index 0."""
        ...

    def entry_at(self, index: int) -> Entry:
        """For `first_index` up to `last_index`."""
        ...
