"""A host of an index by due time, for tests: two logs, files of runs, jobs that end later, and the expected rows."""

from dataclasses import dataclass, field
from random import Random

from tidemill.timer.due_index import DueIndex, Sizes
from tidemill.timer.due_merge import Merge
from tidemill.timer.due_refill import Refill
from tidemill.timer.due_row import KEPT, DueRow, pack_rows, unpack_rows
from tidemill.timer.due_run import HEAD_BYTES, MalformedRun, RunRead, UnwrittenRun, decode_run
from tidemill.timer.waiting_set import WaitingSet

TINY = Sizes(
    run_rows=6,
    block_rows=2,
    chunk_rows=2,
    refill_rows=4,
    window_rows=12,
    runs_max=3,
    merge_runs=2,
    inline_rows=3,
    reschedule_rows=4,
)
EVERYTHING = 1 << 60


@dataclass
class IndexHost:
    """The state of one replica.  `due`, `offset` and `taken` say what is expected."""

    sizes: Sizes = TINY
    waiting: WaitingSet = field(default_factory=WaitingSet)
    arrivals: list[DueRow] = field(default_factory=list)  # the arrivals log
    kept: list[DueRow] = field(default_factory=list)  # the log of kept records
    files: dict[str, bytes] = field(default_factory=dict)
    due: dict[int, int] = field(default_factory=dict)  # of each arrival that waits
    offset: dict[int, int] = field(default_factory=dict)  # of the newest copy of each arrival
    taken: dict[int, DueRow] = field(default_factory=dict)
    refill: Refill | None = None
    merge: Merge | None = None
    unwritten: list[UnwrittenRun] = field(default_factory=list)
    leads: bool = False

    def __post_init__(self) -> None:
        self.index = DueIndex(self.waiting, len(self.kept), self.sizes)

    # Committed entries

    def arrive(self, dues: list[int]) -> None:
        first = len(self.arrivals)
        rows = [DueRow(due, at, at, at * 3, 10 + at % 7, at, at) for at, due in enumerate(dues, first)]
        self.waiting.arrive(len(dues))
        self.arrivals += rows
        for row in rows:
            self.due[row.arrival], self.offset[row.arrival] = row.due_ms, row.offset
        self.index.add(pack_rows(rows))

    def cancel(self, numbers: list[int]) -> None:
        self.waiting.cancel(numbers)
        for number in numbers:
            self.due.pop(number, None)
            self.taken.pop(number, None)

    def reschedule(self, dues: dict[int, int]) -> None:
        """Rows that were taken are forgotten."""
        self.waiting.reschedule(dues)
        rows = [self.row(number)._replace(due_ms=due) for number, due in dues.items() if number in self.due]
        for row in rows:
            self.due[row.arrival] = row.due_ms
            self.taken.pop(row.arrival, None)
        self.index.add(pack_rows(rows))

    def keep(self, numbers: list[int]) -> None:
        """Move records to the log of kept records."""
        rows = []
        for number in numbers:
            offset = KEPT | len(self.kept)
            row = self.row(number)._replace(due_ms=self.due.get(number, 0), offset=offset)
            self.kept.append(row)
            self.offset[number] = offset
            rows += [row] if number in self.due else []
        self.index.add(pack_rows(rows))

    def trim_logs(self) -> None:
        """Begin both logs where the first record lies of which no newer copy is there."""
        present = {self.offset[number] for number in self.due}
        self.index.arrivals_start = min([it for it in present if it < KEPT], default=len(self.arrivals))
        self.index.kept_start = min([it & ~KEPT for it in present if it >= KEPT], default=len(self.kept))

    def row(self, number: int) -> DueRow:
        """Return the newest copy of a record's row, with its due time at that moment."""
        offset = self.offset[number]
        return self.kept[offset & ~KEPT] if offset >= KEPT else self.arrivals[offset]

    # Jobs

    def read(self, read: RunRead) -> bytes | None:
        data = self.files.get(read.name)
        return None if data is None else data[read.position : read.position + read.size]

    def begin_refill(self) -> None:
        self.refill = self.refill or self.index.wanted()

    def end_refill(self) -> None:
        if self.refill is not None:
            self.refill.supply([*map(self.read, self.refill.reads)])
            self.index.refilled(self.refill)
            self.refill = None
            self.rebuild()

    def begin_flush(self) -> None:
        run = self.index.flush()
        if run is not None:
            self.unwritten.append(run)

    def end_flush(self, *, fails: bool = False) -> None:
        if self.unwritten:
            run = self.unwritten.pop(0)
            if fails:
                self.index.flush_failed(run)
            else:
                self.files[run.name] = run.encode(7)
                self.index.flushed(run)

    def begin_merge(self) -> None:
        self.merge = self.merge or self.index.merge()

    def end_merge(self, *, fails: bool = False) -> None:
        merge, self.merge = self.merge, None
        if merge is None:
            return
        if fails:
            self.files[merge.name] = bytes(50)
            self.index.merge_failed(merge)
            return
        data = bytes(merge.position)
        while merge.reads:
            assert len(data) == merge.position
            data += merge.supply([*map(self.read, merge.reads)])
        self.files[merge.name] = data if merge.unreadable else merge.head() + data[HEAD_BYTES:]
        self.index.merged(merge)
        self.rebuild()

    def remove_files(self) -> None:
        for name in self.index.removable():
            del self.files[name]

    def rebuild(self) -> None:
        for first, end in self.index.missing():
            half = (first + end) // 2
            for part_first, part_end in ((first, half), (half, end)):
                log = self.kept if part_first >= KEPT else self.arrivals
                rows = log[part_first & ~KEPT : part_end & ~KEPT]
                self.index.rebuild(part_first, part_end, pack_rows(rows)) if part_first < part_end else None

    # Leadership

    def lead(self) -> None:
        self.follow()
        self.index.lead()
        self.leads = True

    def follow(self) -> None:
        self.index.follow()
        self.taken, self.refill, self.leads = {}, None, False

    def restart(self, *, waiting: WaitingSet | None = None) -> None:
        """Lose all memory; the files and the logs are left, and what waits."""
        self.waiting = waiting or WaitingSet.decode(self.waiting.encode())
        starts = self.index.arrivals_start, self.index.kept_start
        self.taken, self.refill, self.merge, self.unwritten, self.leads = {}, None, None, [], False
        self.index = DueIndex(self.waiting, len(self.kept), self.sizes)
        self.index.arrivals_start, self.index.kept_start = starts
        for name, data in [*self.files.items()]:
            try:
                self.index.restore(decode_run(name, data, chunk_rows=self.sizes.chunk_rows))
            except MalformedRun:
                del self.files[name]
        self.remove_files()
        self.rebuild()

    # Taking

    def expected(self, limit: int = EVERYTHING) -> list[tuple[int, int]]:
        """Return what `take` can return, in order."""
        waits = ((due, number) for number, due in self.due.items() if due <= limit and number not in self.taken)
        return sorted(waits)

    def take(self, limit: int, records_max: int = 1_000, bytes_max: int = 1 << 30) -> list[DueRow]:
        """Take rows once, and check them."""
        expected = self.expected(limit)
        rows = [*unpack_rows(self.index.take(limit, records_max, bytes_max))]
        assert expected[: len(rows)] == [(row.due_ms, row.arrival) for row in rows]
        assert [self.offset[row.arrival] for row in rows] == [row.offset for row in rows], "an old copy"
        assert len(rows) <= records_max
        assert len(rows) <= 1 or sum(row.size for row in rows) <= bytes_max
        self.taken |= {row.arrival: row for row in rows}
        return rows

    def take_all(self, limit: int) -> list[DueRow]:
        """Take all rows that are due, with as many refills as that needs, as an event loop with one timer would."""
        found: list[DueRow] = []
        for _ in range(10 + 4 * (len(self.arrivals) + len(self.kept))):
            self.begin_refill()
            self.end_refill()
            due = self.index.next_due()
            if due is None or due > limit:
                assert [] == self.expected(limit), "the wake-up comes too late"
                return found
            found += self.take(limit)
        raise AssertionError("the index makes no progress")

    def put_back(self, numbers: list[int]) -> None:
        self.index.put_back(pack_rows([self.taken.pop(number) for number in numbers]))

    def release(self, numbers: list[int]) -> None:
        self.waiting.release(numbers)
        for number in numbers:
            del self.due[number], self.taken[number]

    def check(self) -> None:
        """Check the wake-up, and that nothing can be lost."""
        due = self.index.next_due()
        expected = self.expected()
        if self.leads:
            assert due is not None or not expected, "no wake-up"
            assert due is None or not expected or due <= expected[0][0], "the wake-up comes too late"
        else:
            assert due is None


def step(host: IndexHost, random: Random, limit: int) -> None:
    """Do one random thing."""
    waits, taken = sorted(host.due), sorted(host.taken)
    some = random.sample(waits, min(len(waits), random.choice((1, 1, 2, 5))))
    few = random.sample(taken, min(len(taken), random.randrange(4)))
    dues = [
        limit + random.choice((-3, 0, 1, 1, 2, 10, 50, random.randrange(100))) for _ in range(random.choice((1, 3, 9)))
    ]
    actions = {
        "arrive": (10, lambda: host.arrive(dues)),
        "cancel": (2, lambda: host.cancel(some)),
        "reschedule": (2, lambda: host.reschedule({it: random.choice((dues[0], host.due[it])) for it in some})),
        "keep": (3, lambda: host.keep(sorted(some))),
        "keep what is over": (1, lambda: host.keep([random.randrange(len(host.arrivals))])),
        "trim logs": (1, host.trim_logs),
        "begin refill": (5, host.begin_refill),
        "end refill": (5, host.end_refill),
        "begin flush": (3, host.begin_flush),
        "end flush": (3, host.end_flush),
        "fail flush": (1, lambda: host.end_flush(fails=True)),
        "begin merge": (3, host.begin_merge),
        "end merge": (3, host.end_merge),
        "fail merge": (1, lambda: host.end_merge(fails=True)),
        "remove files": (3, host.remove_files),
        "take": (6, lambda: host.take(limit, random.choice((0, 1, 3, 9)), random.choice((5, 20, 100)))),
        "take all": (1, lambda: host.take_all(limit)),
        "put back": (4, lambda: host.put_back(few)),
        "release": (4, lambda: host.release(few)),
        "lead": (1, host.lead),
        "follow": (0.5, host.follow),
        "restart": (0.5, host.restart),
        "lose a file": (0.3, lambda: lose(host, random)),
    }  # fmt: skip
    names = [*actions]
    name = random.choices(names, [actions[it][0] for it in names])[0]
    if name in ("take", "take all", "put back") and not host.leads:
        name = "lead"
    if name == "keep what is over" and not host.arrivals:
        return
    actions[name][1]()


def lose(host: IndexHost, random: Random) -> None:
    """Damage a file, cut it, or remove it."""
    if host.files:
        name = random.choice(sorted(host.files))
        data = host.files[name] or b"-"
        at = random.randrange(len(data))
        host.files[name] = random.choice((data[:at], data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :], b""))
