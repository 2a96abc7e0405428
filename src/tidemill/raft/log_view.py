"""What a replica knows of a log that somebody else keeps."""

from typing import Protocol


class LogView(Protocol):
    """Read when a replica is opened: all of it is durable, and nothing in it has been truncated since."""

    @property
    def first_index(self) -> int:
        """The first index whose entry can still be read; the term of the one before it is known."""
        ...

    @property
    def last_index(self) -> int:
        """0 for an empty log."""
        ...

    def term_at(self, index: int) -> int:
        """For `first_index − 1` up to `last_index`; 0 for index 0."""
        ...
