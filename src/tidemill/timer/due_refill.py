"""What a job reads to move the edge of a leader's window up: the next rows of all runs, and those in memory."""

from collections.abc import Sequence

from tidemill.timer.due_row import KEY_BYTES, ROW_BYTES
from tidemill.timer.due_run import DueRun, planned
from tidemill.timer.native import due_scan


class Refill:
    def __init__(self, runs: Sequence[DueRun], blocks: list[bytes], edge: bytes, rows_min: int) -> None:
        """`blocks` are the rows in memory, and `edge` is the edge of the window.  Ask for about `rows_min` rows."""
        self._chunks, self.edge = planned(runs, edge, rows_min)
        self.reads = [run.read(chunks) for run, chunks in self._chunks]
        self.rows = b""  # those between the two edges, in order
        self.least_left: bytes | None = None  # the least key of the rows in memory from the new edge on
        self.unreadable: list[str] = []  # the names of runs that could not be read, or are damaged
        self._blocks = blocks
        self._low = edge
        self._rows_max = 2 * rows_min

    def supply(self, data: Sequence[bytes | None]) -> None:
        """
        Take the bytes of `reads`, None for what could not be read.

        A job may do this, because it changes nothing that the index reads.
        """
        for (run, chunks), rows in zip(self._chunks, data, strict=True):
            if not run.is_intact(chunks, rows):
                self.unreadable.append(run.name)
        if self.unreadable:
            return
        found = [due_scan.split_rows(rows, self._low, self.edge)[0] for rows in data if rows is not None]
        for block in self._blocks:
            below, least = due_scan.split_rows(block, self._low, self.edge)
            found.append(below)
            if least is not None and (self.least_left is None or least < self.least_left):
                self.least_left = least
        rows = due_scan.sorted_rows(found)
        end = self._rows_max * ROW_BYTES
        if end < len(rows):
            last = rows[end - ROW_BYTES : end - ROW_BYTES + KEY_BYTES]
            while rows[end : end + KEY_BYTES] == last:
                end += ROW_BYTES  # all copies of a row are on the same side of the edge
            if end < len(rows):
                self.edge = self.least_left = rows[end : end + KEY_BYTES]
                rows = rows[:end]
        self.rows = rows
