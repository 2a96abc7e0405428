"""The index by due time of what waits of one timer partition.  It is a cache: the log and the bits can replace it.

                         add                    flush, a job writes
    committed entries ────────▶ unsorted rows ─────────────────────▶ runs, sorted, in files ─▶ merged, removed
                          │          │                                 │
                          │          └──────────────┬──────────────────┘
                          │ below the edge          │ from the edge on: a job reads
                          ▼                         ▼
    leader only:        heap ─────▶ window ◀───── slice          next_due, take, put_back

All replicas have the rows; only a leader has a window.  All rows below its edge are in the window *as well*, so the
window can be dropped at any time, and a run has all rows of its range.  A release or cancellation changes nothing here:
`take` skips rows whose arrival is over, or was rescheduled to another time.

Each row belongs to the range of offsets that was added with it, except for those of rescheduled arrivals: they stay in
memory, like the new times themselves in `waiting_set`, from which `restore` and `rebuild` make them again.
"""

from bisect import insort
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from tidemill.timer.covered_offsets import CoveredOffsets
from tidemill.timer.due_merge import Merge
from tidemill.timer.due_refill import Refill
from tidemill.timer.due_row import KEPT, ROW, ROW_BYTES, arrivals_of, pack_rows, unpack_rows
from tidemill.timer.due_run import CHUNK_ROWS, DueRun, ReadRun, UnwrittenRun
from tidemill.timer.due_window import LAST_EDGE, NO_EDGE, RowFilter, Window
from tidemill.timer.native import due_scan
from tidemill.timer.unsorted_rows import BLOCK_ROWS, UnsortedRows
from tidemill.timer.waiting_set import WaitingSet


class Sizes(NamedTuple):
    """Bounds of an index.  A refill of 32,768 rows takes 1.3 MB; a run of 262,144 rows takes 10.5 MB."""

    run_rows: int = 1 << 18  # of a flushed run, at most
    block_rows: int = BLOCK_ROWS
    chunk_rows: int = CHUNK_ROWS
    refill_rows: int = 1 << 15  # about so many rows are read at once
    window_rows: int = 1 << 17  # a larger window is trimmed; a row in its heap takes 90 bytes
    runs_max: int = 64  # more are merged
    merge_runs: int = 8  # so many at once
    inline_rows: int = 1 << 12  # so many rows in memory are sorted at once, without a job
    reschedule_rows: int = 1 << 12  # below so many rows of rescheduled arrivals, none is dropped


SIZES: Final = Sizes()
REFILL_SCALE_MAX: Final = 8
_FIRST: Final = attrgetter("first")


class DueIndex:
    def __init__(self, waiting: WaitingSet, kept_end: int = 0, sizes: Sizes = SIZES) -> None:
        """
        Nothing is indexed.  `waiting` says what waits; it has changed when rows of the same entry are added.

        The rows of later arrivals than those of `waiting`, and of kept records from the offset `kept_end` on, are
        added.  Those of earlier ones are restored from runs and rebuilt (`missing`).
        """
        self.arrivals_start = 0  # the first offset of the arrivals log; the host sets it
        self.kept_start = 0  # that of the log of kept records, without `KEPT`
        self._waiting = waiting
        self._sizes = sizes
        self._ends = [waiting.end, KEPT | kept_end]  # of what was added, in the arrivals log and that of kept records
        self._unsorted = UnsortedRows(sizes.block_rows), UnsortedRows(sizes.block_rows)  # of the two logs
        self._rescheduled: list[bytes] = []
        self._rescheduled_max = sizes.reschedule_rows
        self._covered = CoveredOffsets()  # ranges of which all rows are here
        self._unwritten: list[UnwrittenRun] = []
        self._failed: list[UnwrittenRun] = []  # those of them that must be written again
        self._runs: list[DueRun] = []  # by offset
        self._serial = 0  # of the newest run
        self._unused: list[str] = []  # the names of files that are not needed any more
        self._merge: Merge | None = None
        self._window: Window | None = None  # of a leader
        self._refill: Refill | None = None
        self._refill_scale = 1  # how many times as many rows are read, because few of them waited
        self._late: list[bytes] = []  # rows that were added since the refill began

    # Rows

    @property
    def unsorted_bytes(self) -> int:
        """The bytes of the rows that `flush` moves to runs, without those that a job writes now."""
        return sum(it.size for it in self._unsorted) + sum(it.size for it in self._failed)

    def add(self, rows: bytes) -> None:
        """
        Add the rows of a committed entry: of new arrivals or kept records in order, or of rescheduled arrivals.

        Rows of new records cover all offsets up to the last one, so a record that never waits needs no row.
        """
        if not rows:
            return
        log, first = _position(rows, 0)
        last_log, last = _position(rows, len(rows) - ROW_BYTES)
        if log == last_log and first >= self._ends[log]:
            begin, self._ends[log] = self._ends[log], last + 1
            self._unsorted[log].add(rows, begin, last + 1)
            self._covered.add(begin, last + 1)
            self._notice(rows)
        else:
            if self._window is not None:
                self._window.allow_again(rows)
            self._add_rescheduled(rows)

    def rebuild(self, first: int, end: int, rows: bytes) -> None:
        """Add all rows of a missing range, which were read from the log, in order; or of a part of it."""
        log = first >= KEPT
        self._unsorted[log].add(rows, first, end)
        self._covered.add(first, end)
        self._notice(rows)
        self._reschedule_again(rows)

    def restore(self, read: ReadRun) -> None:
        """
        Add a run that was read when the broker started, before anything is rebuilt.

        If it is not needed, or ends after what is known of its log, `removable` returns its name.
        """
        run = read.run
        if self.has_run(run.name):
            return
        self._serial = max(self._serial, serial_of(run.name))
        if run.over > self._waiting.over or run.end > self._ends[run.is_kept]:
            # It lacks arrivals that wait by the saved state, or has some that come again with their entries.
            self._unused.append(run.name)
            return
        self._covered.add(run.first, run.end)
        if not due_scan.waiting_rows(read.rows, self._waiting.bits()):
            self._unused.append(run.name)
            return
        self._insert(run)
        self._notice(read.rows)
        self._reschedule_again(read.rows)

    def missing(self) -> list[tuple[int, int]]:
        """
        Return the ranges of offsets whose rows are not here: not yet restored, or in a run that could not be read.

        Offsets of kept records have the highest bit, as in rows.
        """
        waiting, found = self._waiting, []
        for first, end in self._covered.gaps(self.arrivals_start, self._ends[0]):
            if waiting.any_between(first, end):
                found.append((first, end))
            else:
                self._covered.add(first, end)  # nothing will ever wait there: the next call need not look again
        return found + (self._covered.gaps(KEPT | self.kept_start, self._ends[1]) if waiting.count else [])

    # Runs, whose files the host writes, reads and removes in jobs

    @property
    def runs(self) -> Sequence[DueRun]:
        """The runs in files, by offset."""
        return self._runs

    def has_run(self, name: str) -> bool:
        """Return whether a file is a run of this index, or will be one when it is written."""
        written = [] if self._merge is None else [self._merge.name]
        return name in {*(run.name for run in self._runs), *(run.name for run in self._unwritten), *written}

    def flush(self) -> UnwrittenRun | None:
        """
        Return the oldest unsorted rows of one log as a run to be written, or None if none waits.

        They stay in memory until the host calls `flushed`, or until a later `flush` after `flush_failed`.
        """
        if self._failed:
            return self._failed.pop()
        for unsorted in sorted(self._unsorted, key=attrgetter("size"), reverse=True):
            gathered = unsorted.gather(self._sizes.run_rows, self._waiting.bits())
            if gathered is not None:
                blocks, first, end = gathered
                name, chunk_rows = self._next_name(first, end), self._sizes.chunk_rows
                # Now and not in the job: until then some may be over, and would have rows without ids.
                ids = self._ids_in(blocks) if self._waiting.has_ids else []
                run = UnwrittenRun(name, first, end, blocks, ids, over=self._waiting.over, chunk_rows=chunk_rows)
                self._unwritten.append(run)
                return run
        return None

    def _ids_in(self, blocks: Sequence[bytes]) -> list[tuple[int, bytes]]:
        """Return the arrivals of rows that have ids, and the ids."""
        id_of = self._waiting.id_of
        named = [(arrival, id_of(arrival)) for block in blocks for arrival in arrivals_of(block)]
        return [(arrival, timer_id) for arrival, timer_id in named if timer_id is not None]

    def flushed(self, run: UnwrittenRun) -> None:
        """Note that the file of a run is written."""
        assert run.written is not None, f"{run.name} was not encoded"
        self._unwritten.remove(run)
        self._insert(run.written)

    def flush_failed(self, run: UnwrittenRun) -> None:
        """Keep the rows of a run that could not be written; `flush` returns it again."""
        self._failed.append(run)

    def removable(self) -> list[str]:
        """
        Return the names of files that are not needed any more, and forget their runs; the host removes the files.

        These are runs of which nothing waits, or that lie before the starts of the logs, because newer copies of what
        waits have been added; runs that were merged; and unreadable ones.  While a refill is in progress, there are
        none.
        """
        if self._refill is not None:
            return []
        merging = {run.name for run in self._merge.runs} if self._merge is not None else set()
        starts = self.arrivals_start, KEPT | self.kept_start
        finished = {
            run.name
            for run in self._runs
            if run.name not in merging
            and (run.end <= starts[run.is_kept] or not self._waiting.any_between(run.arrivals.start, run.arrivals.stop))
        }
        self._runs = [run for run in self._runs if run.name not in finished]
        names = [name for name in self._unused if name not in merging] + sorted(finished)
        self._unused = [name for name in self._unused if name in merging]
        return names

    def merge(self) -> Merge | None:
        """Return a merge for a job to execute if there are too many runs, else None."""
        if self._merge is not None or len(self._runs) <= self._sizes.runs_max:
            return None
        found = min(self._mergeable(), key=lambda runs: sum(run.count for run in runs), default=None)
        if found is None:
            return None
        name, bits, sizes = self._next_name(found[0].first, found[-1].end), self._waiting.fixed_bits(), self._sizes
        over = self._waiting.over
        self._merge = Merge(name, found, bits, sizes.refill_rows, over=over, chunk_rows=sizes.chunk_rows)
        return self._merge

    def merged(self, merge: Merge) -> None:
        """Use the run that a merge has written, unless a run could not be read."""
        assert merge is self._merge and not merge.reads
        self._merge = None
        if merge.unreadable:
            self._drop_unreadable(merge.unreadable)
            self._unused.append(merge.name)
            return
        names = {run.name for run in merge.runs}
        self._unused += [run.name for run in self._runs if run.name in names]
        self._runs = [run for run in self._runs if run.name not in names]
        self._covered.add(merge.run.first, merge.run.end)
        self._insert(merge.run)

    def merge_failed(self, merge: Merge) -> None:
        """Forget a merge whose file could not be written."""
        assert merge is self._merge
        self._merge = None
        self._unused.append(merge.name)

    # What a leader releases

    def lead(self) -> None:
        """Begin a window."""
        self.follow()
        self._window = Window()
        if not self._runs and not self._blocks():
            self._window.extend(b"", LAST_EDGE)

    def follow(self) -> None:
        """Drop the window, and what was taken."""
        self._window = self._refill = None
        self._refill_scale = 1
        self._late = []

    def wanted(self) -> Refill | None:
        """
        Return what a job must read and supply, or None if the window has enough rows, or a refill is in progress.

        If few rows are in memory and there are no runs, the window is refilled at once.
        """
        window, sizes = self._window, self._sizes
        if window is None or window.edge == LAST_EDGE or self._refill is not None:
            return None
        if len(window) > sizes.refill_rows // 2:
            return None
        blocks = self._blocks()
        memory_rows = sum(map(len, blocks)) // ROW_BYTES
        # A refill scans all rows in memory, so it takes more of them if there are many.
        size = max(sizes.refill_rows, min(memory_rows // 16, sizes.window_rows // 4))
        read_rows = size * self._refill_scale
        bits = self._waiting.fixed_bits()
        self._refill = refill = Refill(self._runs, blocks, window.edge, bits, read_rows=read_rows, rows_max=2 * size)
        self._late = []
        if refill.reads or memory_rows > sizes.inline_rows:
            return refill
        refill.supply([])
        self.refilled(refill)
        return None

    def refilled(self, refill: Refill) -> None:
        """
        Move the rows of a refill, to which the data was supplied, to the window.

        If a run could not be read, it is dropped, and the window stays: `missing` then returns its range.
        """
        window = self._window
        if refill is not self._refill or window is None:
            return  # it began before this broker led
        self._refill, late, self._late = None, self._late, []
        if refill.unreadable:
            self._drop_unreadable(refill.unreadable)
            return
        below = due_scan.split_rows(b"".join(late), window.edge, refill.edge)
        window.extend(refill.rows, refill.edge)
        window.push(below)
        self._refill_scale = min(2 * self._refill_scale, REFILL_SCALE_MAX) if refill.found_few else 1
        self._trim()

    def take(self, limit_ms: int, records_max: int, bytes_max: int) -> bytes:
        """
        Return the first rows that wait and are due by `limit_ms`, in order of (due, arrival).

        The records of the rows have at most `bytes_max` bytes together, or there is one row only.  The index does not
        return a row again until it is put back, its arrival is rescheduled, or `follow` was called.  When an arrival
        is rescheduled, the host forgets its rows that it has taken, or claims those that it uses all the same.
        """
        if self._window is None:
            return b""
        return self._window.take(limit_ms, records_max, bytes_max, self._row_filter())

    def upcoming(self, low: bytes, high: bytes) -> tuple[bytes, bytes]:
        """
        Return the rows that count, with keys from `low` on, in order, and where they end: before `high`, or at the edge
        of the window.  A record may have several rows: the last is the newest copy.
        """
        if self._window is None:
            return b"", low
        end = max(min(high, self._window.edge), low)
        return due_scan.counting_rows(self._window.between(low, end), self._row_filter()), end

    def put_back(self, rows: bytes) -> None:
        """Let rows that were taken and not used be taken again."""
        if self._window is not None:
            self._window.put_back(rows)

    def claim(self, rows: bytes) -> None:
        """
        Do not return rows again that were taken and are used, although their arrivals may have been rescheduled since,
        in the end to the times that the rows say.
        """
        if self._window is not None:
            self._window.claim(rows)

    def next_due(self) -> int | None:
        """
        Return when the first row that waits and is not taken is due, or None if there is none, or no window.

        If that row must be read first (`wanted`), it is due at this time or later.
        """
        window = self._window
        if window is None:
            return None
        due = window.first_due(self._row_filter())
        if due is not None or window.edge == LAST_EDGE:
            return due
        return int.from_bytes(window.edge[:8], "big")

    @property
    def known_due(self) -> int | None:
        """
        When the first row is due, for people: as `next_due`, but None also until rows were read since this broker
        leads, when that is only known to be later than ever.
        """
        return None if self._window is None or self._window.edge == NO_EDGE else self.next_due()

    # Parts of the above

    def _row_filter(self) -> RowFilter:
        waiting = self._waiting
        return RowFilter(*waiting.bits(), waiting.rescheduled, self.arrivals_start, KEPT | self.kept_start)

    def _notice(self, rows: bytes) -> None:
        """Add new rows to the window if they are below its edge."""
        window = self._window
        if window is None:
            return
        window.push(due_scan.split_rows(rows, NO_EDGE, window.edge))
        if self._refill is not None:
            self._late.append(rows)
        self._trim()

    def _trim(self) -> None:
        """Bound the window.  A row in it is never lost: it is in a run or in memory as well."""
        window = self._window
        if window is not None and self._refill is None and len(window) > self._sizes.window_rows:
            window.trim(self._sizes.refill_rows)

    def _add_rescheduled(self, rows: bytes) -> None:
        if not rows:
            return
        waits, rescheduled = self._waiting.waits, self._waiting.rescheduled
        for row in unpack_rows(rows):
            is_known = rescheduled.get(row.arrival) == row.due_ms or not waits(row.arrival)
            assert is_known, f"arrival {row.arrival} is not due at {row.due_ms}, and its row is not new"
        block_bytes = self._sizes.block_rows * ROW_BYTES
        if self._rescheduled and len(self._rescheduled[-1]) + len(rows) <= block_bytes:
            rows_so_far = self._rescheduled.pop()
            self._rescheduled.append(rows_so_far + rows)
        else:
            self._rescheduled.append(rows)
        self._notice(rows)
        if sum(map(len, self._rescheduled)) > self._rescheduled_max * ROW_BYTES:
            self._drop_rescheduled()

    def _drop_rescheduled(self) -> None:
        """Drop the rows of rescheduled arrivals that are over, or were rescheduled again."""
        rescheduled = self._waiting.rescheduled
        every = (row for block in self._rescheduled for row in unpack_rows(block))
        kept = [row for row in every if rescheduled.get(row.arrival) == row.due_ms]
        self._rescheduled = [pack_rows(kept[at : at + 1_024]) for at in range(0, len(kept), 1_024)]
        self._rescheduled_max = max(2 * len(kept), self._sizes.reschedule_rows)

    def _reschedule_again(self, rows: bytes) -> None:
        """Add the rows of arrivals that are not due any more when these rows say."""
        rescheduled = self._waiting.rescheduled
        if rescheduled:
            self._add_rescheduled(due_scan.rescheduled_rows(rows, rescheduled))

    def _blocks(self) -> list[bytes]:
        """Return all rows in memory."""
        unsorted = (block for rows in self._unsorted for block in rows.blocks())
        return [*unsorted, *self._rescheduled, *(block for run in self._unwritten for block in run.blocks)]

    def _insert(self, run: DueRun) -> None:
        """Add a run, unless another one has its range, and drop those whose ranges it has."""
        if any(other.first <= run.first and run.end <= other.end for other in self._runs):
            self._unused.append(run.name)
            return
        self._unused += [other.name for other in self._runs if run.first <= other.first and other.end <= run.end]
        self._runs = [other for other in self._runs if other.first < run.first or run.end < other.end]
        insort(self._runs, run, key=_FIRST)

    def _next_name(self, first: int, end: int) -> str:
        self._serial += 1
        return f"{first & ~KEPT}-{end & ~KEPT}-{self._serial}.due"

    def _drop_unreadable(self, names: Sequence[str]) -> None:
        for run in self._runs:
            if run.name in names:
                self._covered.remove(run.first, run.end)
                self._unused.append(run.name)
        self._runs = [run for run in self._runs if run.name not in names]

    def _mergeable(self) -> Iterator[Sequence[DueRun]]:
        """Yield runs that follow each other."""
        groups: list[list[DueRun]] = []
        for run in self._runs:
            if groups and self._follows(groups[-1][-1], run):
                groups[-1].append(run)
            else:
                groups.append([run])
        for group in groups:
            count = min(len(group), self._sizes.merge_runs)
            if count > 1:
                yield from (group[at : at + count] for at in range(len(group) - count + 1))

    def _follows(self, former: DueRun, run: DueRun) -> bool:
        """Return whether nothing waits between two runs, so that one run can claim the whole range."""
        first, end = former.end, run.first
        return former.is_kept == run.is_kept and (
            first >= end
            or not (
                self._covered.gaps(first, end)
                or self._unsorted[run.is_kept].overlaps(first, end)
                or any(it.first < end and first < it.end for it in self._unwritten)
            )
        )


def serial_of(name: str) -> int:
    """Return the number of a run that its name ends with, or 0."""
    number = name.removesuffix(".due").rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


def _position(rows: bytes, at: int) -> tuple[bool, int]:
    """Return the log and the offset of the row at a position."""
    offset: int = ROW.unpack_from(rows, at)[2]
    return offset >= KEPT, offset
