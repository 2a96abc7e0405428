"""What a job reads to move the edge of a leader's window up: the next rows of all runs, and those in memory."""

from collections.abc import Sequence

from tidemill.timer.due_row import KEY_BYTES, ROW_BYTES
from tidemill.timer.due_run import DueRun, planned
from tidemill.timer.native import due_scan
from tidemill.timer.waiting_bits import BitView


class Refill:
    def __init__(
        self, runs: Sequence[DueRun], blocks: list[bytes], edge: bytes, bits: BitView, *, read_rows: int, rows_max: int
    ) -> None:
        """
        Read about `read_rows` rows of runs, beginning at the edge of the window, and return about `rows_max` rows.

        `blocks` are the rows in memory.  `bits` do not change.
        """
        self._chunks, self.edge = planned(runs, edge, read_rows)
        self.reads = [run.read(chunks) for run, chunks in self._chunks]
        self.rows = b""  # those between the two edges whose arrivals wait, in order
        self.found_few = False  # whether most rows are of arrivals that are over, so that more should be read
        self.unreadable: list[str] = []  # the names of runs that could not be read, or are damaged
        self._blocks = blocks
        self._low = edge
        self._bits = bits
        self._rows_max = rows_max

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
        blocks = [*(rows for rows in data if rows is not None), *self._blocks]
        found = [due_scan.split_rows(block, self._low, self.edge) for block in blocks]
        rows = due_scan.sorted_rows([due_scan.waiting_rows(block, self._bits) for block in found if block])
        self.found_few = 4 * len(rows) < sum(map(len, found))
        end = self._rows_max * ROW_BYTES
        if end < len(rows):
            last = rows[end - ROW_BYTES : end - ROW_BYTES + KEY_BYTES]
            while rows[end : end + KEY_BYTES] == last:
                end += ROW_BYTES  # all copies of a row are on the same side of the edge
            if end < len(rows):
                self.edge = rows[end : end + KEY_BYTES]
                rows = rows[:end]
        self.rows = rows
