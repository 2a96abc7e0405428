"""Reports the progress of a run while it runs."""

from typing import Protocol


class Progress(Protocol):
    """
    Receives the progress of a run.

    Commands show it; Python functions discard it unless the caller passes a Progress.
    """

    def begin(self, what: str, total_records: int | None) -> None:
        """End the previous phase and begin a new one.  `total_records` is its number of records, or None if unknown."""
        ...

    def advance(self, records: int, bytes: int = 0, lag: int | None = None) -> None:
        """Add the records and bytes processed since the last call; `lag` is the number of remaining records."""
        ...

    def note(self, text: str) -> None:
        """Show one sentence, such as what a resumed run skips."""
        ...


class SilentProgress:
    """A Progress that shows nothing."""

    def begin(self, what: str, total_records: int | None) -> None: ...

    def advance(self, records: int, bytes: int = 0, lag: int | None = None) -> None: ...

    def note(self, text: str) -> None: ...
