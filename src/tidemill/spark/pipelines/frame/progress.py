"""Reports the progress of a run while it runs."""

from typing import Protocol


class Progress(Protocol):
    """Receives what a run does.  The commands show it; Python functions ignore it unless they are given another."""

    def begin(self, what: str, total_records: int | None) -> None:
        """Begin a phase, which has `total_records` records, or None if that is unknown.  It ends the phase before."""
        ...

    def advance(self, records: int, bytes: int = 0, lag: int | None = None) -> None:
        """Add the records and bytes that were done since the last call; `lag` is how many records are left to do."""
        ...

    def note(self, text: str) -> None:
        """Say one sentence, such as what a resumed run skips."""
        ...


class SilentProgress:
    """Shows nothing."""

    def begin(self, what: str, total_records: int | None) -> None: ...

    def advance(self, records: int, bytes: int = 0, lag: int | None = None) -> None: ...

    def note(self, text: str) -> None: ...
