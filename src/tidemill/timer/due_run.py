"""Sorted rows of the index by due time in a file: all rows of a range of offsets that waited when the run was made.

    magic      4   TMDU
    version    2   1
    CRC        4   CRC-32C of all that follows
    epoch      8   int64; the leader epoch of the last batch of the range
    first      8   the first offset of the range; the highest bit is set in the log of kept records, as in rows
    end        8   the end offset of the range
    over       8   how many arrivals of the partition were over when the run was made
    rows       4   their count
    ids        4   their count
    rows       …   `due_row`, in order
    ids        …   each: arrival uint64, timer id 16 bytes

Integers are big-endian.  The ids are those of the rows.  A state of what waits that was saved earlier may have arrivals
that were over when the run was made, and whose rows and ids the run lacks.  The changes that ended them are to be
applied again, and may name them by their ids; so such a run is not used.

Runs are hints.  No run is synced, because the rows can be read from the log again.  The host
compares the epoch with that of the log; the CRC of each chunk of rows is kept in memory and checked when it is read.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from struct import Struct
from typing import Final, NamedTuple

from tidemill.batches.checksum import crc32c, crc32c_joined
from tidemill.timer.due_row import KEPT, KEY_BYTES, ROW_BYTES
from tidemill.timer.due_window import LAST_EDGE
from tidemill.timer.native import due_scan

MAGIC: Final = b"TMDU"
VERSION: Final = 1
CHUNK_ROWS: Final = 512  # read and checked at once
_PREFIX: Final = Struct(">4sHI")
_HEAD: Final = Struct(">qQQQII")
_ID: Final = Struct(">Q16s")
HEAD_BYTES: Final = _PREFIX.size + _HEAD.size
ID_ROW_BYTES: Final = _ID.size


class MalformedRun(ValueError):
    """The bytes are no run, or are damaged: the rows must be read from the log again."""


class RunRead(NamedTuple):
    """Bytes that a job reads from the file of a run."""

    name: str
    position: int
    size: int


class DueRun:
    """What is known of a run without its file: its range, and where its rows lie."""

    def __init__(self, name: str, first: int, end: int, *, epoch: int, over: int, chunk_rows: int = CHUNK_ROWS) -> None:
        self.name = name  # of the file; no other run of this index has it
        self.first = first  # offset, as in rows
        self.end = end
        self.epoch = epoch  # the leader epoch of the last batch of the range
        self.over = over  # how many arrivals of the partition were over when the run was made
        self.count = 0  # of rows
        self.id_count = 0
        self.fences: list[bytes] = []  # the first key of each chunk
        self._last = b""  # the greatest key
        self._checks = array("I")  # the CRC of each chunk
        self._chunk_rows = chunk_rows
        self._arrivals = (0, -1)  # the smallest and the largest

    @property
    def is_kept(self) -> bool:
        """Whether the run is of the log of kept records; otherwise it is of the arrivals log."""
        return self.first >= KEPT

    @property
    def arrivals(self) -> range:
        """The arrivals among which those of all rows are."""
        return range(self._arrivals[0], self._arrivals[1] + 1)

    def append(self, rows: bytes) -> None:
        """Note the rows that follow in the file."""
        if not rows:
            return
        least, greatest = due_scan.arrival_bounds(rows)
        if self.count:
            least, greatest = min(least, self._arrivals[0]), max(greatest, self._arrivals[1])
        self._arrivals = least, greatest
        self._last = rows[-ROW_BYTES : KEY_BYTES - ROW_BYTES]
        at, view = 0, memoryview(rows)
        while at < len(rows):
            filled = self.count % self._chunk_rows
            if not filled:
                self.fences.append(rows[at : at + KEY_BYTES])
                self._checks.append(0)
            part = view[at : at + (self._chunk_rows - filled) * ROW_BYTES]
            self._checks[-1] = crc32c(part, self._checks[-1])
            self.count += len(part) // ROW_BYTES
            at += len(part)

    def chunks_from(self, edge: bytes) -> range:
        """Return the chunks that may have keys from `edge` on."""
        if self._last < edge:
            return range(0)
        return range(max(bisect_left(self.fences, edge) - 1, 0), len(self.fences))

    def read(self, chunks: range) -> RunRead:
        """Return where these chunks lie."""
        size = self._chunk_rows * ROW_BYTES
        first, end = chunks.start * size, min(chunks.stop * size, self.count * ROW_BYTES)
        return RunRead(self.name, HEAD_BYTES + first, end - first)

    def read_ids(self) -> RunRead:
        """Return where the ids lie."""
        return RunRead(self.name, HEAD_BYTES + self.count * ROW_BYTES, self.id_count * ID_ROW_BYTES)

    def is_intact(self, chunks: range, rows: bytes | None) -> bool:
        """Return whether what was read of these chunks is what was written."""
        if rows is None or len(rows) != self.read(chunks).size:
            return False
        size, view = self._chunk_rows * ROW_BYTES, memoryview(rows)
        return all(crc32c(view[at * size : (at + 1) * size]) == self._checks[chunk] for at, chunk in enumerate(chunks))

    def head(self, crc: int) -> bytes:
        """Return the head of the file; `crc` is that of all rows and ids."""
        rest = _HEAD.pack(self.epoch, self.first, self.end, self.over, self.count, self.id_count)
        size = self.count * ROW_BYTES + self.id_count * ID_ROW_BYTES
        return _PREFIX.pack(MAGIC, VERSION, crc32c_joined(crc32c(rest), crc, size)) + rest


class UnwrittenRun:
    """A run whose rows are in memory until its file is written."""

    def __init__(
        self,
        name: str,
        first: int,
        end: int,
        blocks: list[bytes],
        ids: Sequence[tuple[int, bytes]] = (),
        *,
        over: int,
        chunk_rows: int = CHUNK_ROWS,
    ) -> None:
        """
        `blocks` are the rows in any order, `ids` the arrivals of them that have ids, and `over` is how many arrivals
        of the partition are over.
        """
        self.name = name
        self.first = first
        self.end = end
        self.blocks = blocks
        self.written: DueRun | None = None  # what is known of the file
        self._ids = ids
        self._over = over
        self._chunk_rows = chunk_rows

    @property
    def is_kept(self) -> bool:
        """Whether the run is of the log of kept records; otherwise it is of the arrivals log."""
        return self.first >= KEPT

    @property
    def size(self) -> int:
        """How many bytes the rows have."""
        return sum(map(len, self.blocks))

    def encode(self, epoch: int) -> bytes:
        """
        Return the bytes of the file; `epoch` is the leader epoch of the batch before the end offset.

        A job may do this, because it changes nothing that the index reads.
        """
        run = DueRun(self.name, self.first, self.end, epoch=epoch, over=self._over, chunk_rows=self._chunk_rows)
        rows = due_scan.sorted_rows(self.blocks)
        run.append(rows)
        ids = b"".join([_ID.pack(*it) for it in self._ids])
        run.id_count = len(self._ids)
        self.written = run
        return run.head(crc32c(ids, crc32c(rows))) + rows + ids


class ReadRun(NamedTuple):
    """A run whose file was read as a whole."""

    run: DueRun
    rows: bytes
    ids: list[tuple[int, bytes]]  # arrivals and their timer ids; some may be over


def decode_run(name: str, data: bytes, *, chunk_rows: int = CHUNK_ROWS) -> ReadRun:
    """Return the run that the file `name` contains.  Raise MalformedRun."""
    if len(data) < HEAD_BYTES:
        raise MalformedRun(f"{name}: {len(data)} bytes are no run")
    magic, version, crc = _PREFIX.unpack_from(data)
    if (magic, version) != (MAGIC, VERSION):
        raise MalformedRun(f"{name}: no run of version {VERSION}")
    epoch, first, end, over, count, id_count = _HEAD.unpack_from(data, _PREFIX.size)
    rows_end = HEAD_BYTES + count * ROW_BYTES
    if len(data) != rows_end + id_count * ID_ROW_BYTES or crc32c(memoryview(data)[_PREFIX.size :]) != crc:
        raise MalformedRun(f"{name}: the file was cut or is damaged")
    run = DueRun(name, first, end, epoch=epoch, over=over, chunk_rows=chunk_rows)
    rows = data[HEAD_BYTES:rows_end]
    run.append(rows)
    run.id_count = id_count
    return ReadRun(run, rows, [*_ID.iter_unpack(data[rows_end:])])


def planned(runs: Sequence[DueRun], edge: bytes, rows_min: int) -> tuple[list[tuple[DueRun, range]], bytes]:
    """
    Return chunks that have at least `rows_min` of the next rows from `edge` on, or all, and the next edge.

    All rows between the two edges are in these chunks.
    """
    pending = [
        (run.fences[chunks.start], at, chunks.start, chunks)
        for at, run in enumerate(runs)
        if (chunks := run.chunks_from(edge))
    ]
    heapify(pending)
    ends: dict[int, range] = {}  # by place in `runs`
    count = 0
    while pending and (count < rows_min or pending[0][0] <= edge):
        _, at, chunk, chunks = heappop(pending)
        ends[at] = range(chunks.start, chunk + 1)
        if chunk + 1 < chunks.stop:
            heappush(pending, (runs[at].fences[chunk + 1], at, chunk + 1, chunks))
        count += runs[at].read(range(chunk, chunk + 1)).size // ROW_BYTES
    return [(runs[at], chunks) for at, chunks in ends.items()], pending[0][0] if pending else LAST_EDGE
