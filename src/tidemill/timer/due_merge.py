"""Merges runs of the index by due time into one, in rounds of reads and writes that a job makes.

    while merge.reads:
        write the bytes of merge.supply(what was read) at merge.position
    unless merge.unreadable, write merge.head() at 0

A file without its head is no run, so a merge that ends early claims no range of offsets.  The rows of arrivals that
were over when the merge began are left out.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from tidemill.batches.checksum import crc32c
from tidemill.timer.due_run import CHUNK_ROWS, HEAD_BYTES, ID_ROW_BYTES, DueRun, RunRead, planned
from tidemill.timer.due_window import NO_EDGE
from tidemill.timer.native import due_scan
from tidemill.timer.waiting_bits import BitView

_ARRIVAL: Final = Struct(">Q")


class Merge:
    def __init__(
        self,
        name: str,
        runs: Sequence[DueRun],
        bits: BitView,
        rows_min: int,
        *,
        over: int,
        chunk_rows: int = CHUNK_ROWS,
    ) -> None:
        """
        `runs` follow each other in the order of offsets.  `bits` do not change, and say that `over` arrivals are over.
        A round reads about `rows_min`.
        """
        self.name = name
        self.runs = runs
        self.run = DueRun(
            name, runs[0].first, max(run.end for run in runs), epoch=runs[-1].epoch, over=over, chunk_rows=chunk_rows
        )
        self.reads: list[RunRead] = []  # what to read next; none if all is merged, or a run is unreadable
        self.position = HEAD_BYTES  # where the next bytes are written
        self.unreadable: list[str] = []  # the names of runs that could not be read, or are damaged
        self._bits = bits
        self._rows_min = rows_min
        self._edge = NO_EDGE
        self._crc = 0
        self._plan()

    @property
    def is_kept(self) -> bool:
        """Whether the runs are of the log of kept records; otherwise they are of the arrivals log."""
        return self.run.is_kept

    def supply(self, data: Sequence[bytes | None]) -> bytes:
        """Take the bytes of `reads`, None for what could not be read, and return the bytes to write next."""
        if self._chunks:
            merged = self._merged_rows(data)
        else:
            merged = self._merged_ids(data)
        self._crc = crc32c(merged, self._crc)
        self.position += len(merged)
        return merged

    def head(self) -> bytes:
        """Return the head of the file when all is merged."""
        assert not self.reads and not self.unreadable, f"{self.name}: the merge is not complete"
        return self.run.head(self._crc)

    def _plan(self) -> None:
        self._chunks, self._next_edge = planned(self.runs, self._edge, self._rows_min)
        self.reads = [run.read(chunks) for run, chunks in self._chunks]
        if not self.reads:
            self.reads = [run.read_ids() for run in self.runs if run.id_count]

    def _merged_rows(self, data: Sequence[bytes | None]) -> bytes:
        for (run, chunks), rows in zip(self._chunks, data, strict=True):
            if not run.is_intact(chunks, rows):
                self.unreadable.append(run.name)
        if self.unreadable:
            self.reads = []
            return b""
        found = [due_scan.split_rows(rows, self._edge, self._next_edge) for rows in data if rows is not None]
        merged = due_scan.waiting_rows(due_scan.sorted_rows(found), self._bits)
        self.run.append(merged)
        self._edge = self._next_edge
        self._plan()
        return merged

    def _merged_ids(self, data: Sequence[bytes | None]) -> bytes:
        found = []
        for read, ids in zip(self.reads, data, strict=True):
            if ids is None or len(ids) != read.size:
                self.unreadable.append(read.name)
                continue
            rows = (ids[at : at + ID_ROW_BYTES] for at in range(0, len(ids), ID_ROW_BYTES))
            found += [row for row in rows if self._bits.waits(_ARRIVAL.unpack_from(row)[0])]
        self.run.id_count = len(found)
        self.reads = []
        return b"".join(found)
