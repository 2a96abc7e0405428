"""Files and directories that have changed since they were last synced: the next checkpoint syncs them."""

from collections.abc import Iterable

from tidemill.storage.partition.segment import Segment


class DirtyFiles:
    __slots__ = ("directories", "segments")

    def __init__(self) -> None:
        self.segments: dict[Segment, None] = {}  # in the order in which they changed
        self.directories: dict[str, None] = {}

    def add(self, segments: Iterable[Segment], directories: Iterable[str]) -> None:
        self.segments |= dict.fromkeys(segments)
        self.directories |= dict.fromkeys(directories)

    def forget(self, segment: Segment) -> None:
        """Drop a segment that is about to be removed."""
        self.segments.pop(segment, None)

    def take(self) -> tuple[dict[Segment, None], dict[str, None]]:
        """Return the segments and directories, and clear both."""
        segments, self.segments = self.segments, {}
        directories, self.directories = self.directories, {}
        return segments, directories

    def put_back(self, segments: dict[Segment, None], directories: dict[str, None]) -> None:
        """Put back files that could not be synced, ahead of all files that changed later."""
        self.segments = segments | self.segments
        self.directories |= directories
