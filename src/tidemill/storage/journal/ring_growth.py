"""Growth of the journal's ring: a file is prepared in the background and joins the ring when the head needs it."""

from collections.abc import Collection, Iterator

from tidemill.storage.disk import Disk, File
from tidemill.storage.journal.block import Block
from tidemill.storage.journal.journal import Journal, prepare_file


class RingGrowth:
    """The preparation of new journal files, one at a time.  Sizes are in bytes."""

    def __init__(self, disk: Disk, journal: Journal, *, file_bytes: int, bytes_max: int) -> None:
        self._disk = disk
        self._journal = journal
        self._file_bytes = file_bytes
        self._bytes_max = bytes_max
        self._is_preparing = False

    def is_wanted(self, in_flight: Collection[Block]) -> bool:
        """
        Return whether the ring is half full and may grow.  Every file is prepared under the same name, so the previous
        file must have been renamed first, which a block in flight may still have to do.
        """
        journal = self._journal
        return (
            not self._is_preparing
            and not any(block.joined for block in in_flight)
            and journal.prepared is None
            and journal.capacity + self._file_bytes <= self._bytes_max
            and journal.used * 2 > journal.capacity
            and self._disk.free_space() > self._file_bytes + journal.used
        )

    def steps(self) -> Iterator[File | None]:
        """Return the steps that prepare a file, for another thread.  Pass the last value yielded to `finished`."""
        self._is_preparing = True
        return prepare_file(self._disk, self._file_bytes)

    def finished(self, file: File | None) -> None:
        """Accept the prepared file, or None if the disk had no room for it."""
        self._is_preparing = False
        if file is not None:
            self._journal.prepared = file
            self._journal.prepared_size = self._file_bytes
