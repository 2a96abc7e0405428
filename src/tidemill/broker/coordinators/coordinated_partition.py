"""One partition of `__consumer_offsets` with the groups in it: the shell around the pure coordinator.

    load:  log start ─▶ … read, replay … ─▶ the log's end ─▶ loaded
    ask:   decide ─▶ records ─▶ append ─▶ replay ─▶ … committed ─▶ replies

Every reply, a read's too, leaves when the log is committed up to the point it was computed from, and this broker was
still the leader after the request came.  When leadership goes, everything here is dropped, and whoever leads next loads
it from the log.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tidemill.batches.batch import spans
from tidemill.batches.builder import build_batch
from tidemill.batches.records import Record, read_records
from tidemill.broker.machine import Machine
from tidemill.coordinator.group.groups import Groups
from tidemill.coordinator.group.refusal import refused
from tidemill.coordinator.group.requests import (
    CommitOffsets,
    DescribeGroups,
    FetchOffsets,
    ForgetTopics,
    GroupRequest,
    Heartbeat,
    ListGroups,
)
from tidemill.coordinator.group.snapshot import SnapshotChunks
from tidemill.coordinator.result import Key, LogRecord, Result, Waiter
from tidemill.coordinator.timestamps import Timestamps
from tidemill.model import errors
from tidemill.model.topic import TopicId
from tidemill.shard.append import append_own
from tidemill.shard.partition import Partition
from tidemill.storage.disk import Buffer
from tidemill.storage.partition.partition_log import OffsetGone
from tidemill.storage.partition.segment import SegmentDamaged

LOAD_BYTES: Final = 64 << 10  # read by one job: about a thousand records
TURN_RECORDS_MAX: Final = 200  # replayed, or written for a snapshot, in one turn of the loop: 2 to 3 ms
BATCH_RECORDS_MAX: Final = 1_000  # of one append; what a Result has beyond that goes into a further batch
BATCH_BYTES_MAX: Final = 1 << 20  # … and likewise by bytes, with one record at least
SNAPSHOT_RECORDS_MIN: Final = 10_000  # records behind the log start before a snapshot pays
SNAPSHOT_GROWTH: Final = 4  # … and this many times what the last snapshot held
LOAD_AGAIN_S: Final = 5.0  # after a read that failed where the disk may be whole
NOT_NOW_MS: Final = 1_000  # a deadline that may have to write waits this long until it may, and again
TIMER_MS_MAX: Final = 24 * 3_600_000  # an event loop's timers are for hours; at the bound the coordinator is just asked

Answer = Callable[[Any], None]  # takes the reply of the request's kind (`coordinator/group/responses.py`)
# What goes on while the disk is full: these append nothing, and deleted topics make room.
_ALWAYS: Final = (Heartbeat, FetchOffsets, DescribeGroups, ListGroups, ForgetTopics)


class _Asked:
    """The coordinator's handle of a request: what it was, and whom to tell."""

    __slots__ = ("answer", "request")

    def __init__(self, request: GroupRequest, answer: Answer) -> None:
        self.request = request
        self.answer = answer


class CoordinatedPartition:
    def __init__(
        self,
        partition: Partition,
        groups: Groups,
        machine: Machine,
        *,
        storage_problem: Callable[[], str | None],
        is_isolated: Callable[[], bool],
        loaded: Callable[["CoordinatedPartition"], None],
    ) -> None:
        """
        `is_isolated`: what is known here of topics may be old.  `loaded` is called once, when requests are taken from
        then on.
        """
        self.partition = partition
        self.is_loaded = False
        self._groups = groups
        self._machine = machine
        self._storage_problem = storage_problem
        self._is_isolated = is_isolated
        self._on_loaded = loaded
        self._began_ms = machine.clock.wall_ms() - machine.clock.monotonic_ms()
        self._is_dropped = False
        self._load_problem: str | None = None
        self._load_from = partition.log_start
        self._load_end = partition.log.end_offset
        self._last_index = 0  # of the newest entry that a reply may have been computed from
        self._timers: dict[Key, Any] = {}
        self._snapshot: SnapshotChunks | None = None  # under way
        self._snapshot_first_offset = 0

    # Loading.

    def load(self) -> None:
        """Replay the partition; nobody else appends meanwhile, because requests are refused until it is done."""
        if self._load_from >= self._load_end:
            self._loaded()
            return
        log, start, end = self.partition.log, self._load_from, self._load_end

        def read() -> tuple[list[Record], int] | Exception:
            try:
                found = log.read(start, LOAD_BYTES, end, may_wait=True)
                assert found is not None, "a read that may wait answers"
                return _records_from(start, found[0])
            except (SegmentDamaged, OffsetGone, ValueError) as error:
                return error

        self._machine.read_jobs.submit(read, self._read, self._machine.failed)

    def _read(self, found: tuple[list[Record], int] | Exception) -> None:
        if self._is_dropped:
            return
        if isinstance(found, Exception):
            self._cannot_load(str(found))
            if isinstance(found, SegmentDamaged):
                self.partition.shard.damage.suspect(found)
                self._machine.call_later(LOAD_AGAIN_S, self._load_again)  # whoever is damaged leads no more by then
            return
        records, end_offset = found
        if end_offset <= self._load_from:
            self._cannot_load(f"nothing can be read at offset {self._load_from}")
            return
        self._load_from = end_offset
        self._replay(records, 0)

    def _replay(self, records: list[Record], at: int) -> None:
        """Some in each turn, so that whoever else is served here does not wait for it."""
        if self._is_dropped:
            return
        for record in records[at : at + TURN_RECORDS_MAX]:
            try:
                self._groups.replay(record.key or b"", record.value)
            except ValueError as error:
                self._cannot_load(f"the record at offset {record.offset} is not one of ours: {error}")
                return
        at += TURN_RECORDS_MAX
        if at < len(records):
            self._machine.turns.call_soon(lambda: self._replay(records, at))
        else:
            self.load()

    def _cannot_load(self, problem: str) -> None:
        """Half a state is worse than none: its groups are not served until somebody has looked."""
        self._load_problem = problem
        self._machine.events.error(
            "groups cannot be loaded", topic=self.partition.topic, partition=self.partition.number, problem=problem
        )

    def _load_again(self) -> None:
        if not self._is_dropped:
            self._load_problem = None
            self.load()

    def _loaded(self) -> None:
        self.is_loaded = True
        self._execute(self._groups.loaded(self._timestamps()))
        end = self._groups.snapshot_end
        if end is not None and end.first_offset > self.partition.log_start:
            self._move_log_start(end.first_offset)  # The one who wrote it did not come to that.
        self._on_loaded(self)

    # Requests.

    def ask(self, request: GroupRequest) -> None:
        """`request.waiter` is an Answer, which is called once."""
        answer: Any = getattr(request, "waiter", None)
        problem = self._problem(request)
        if problem != errors.NONE:
            if answer is not None:
                answer(refused(request, problem))
            return
        if not isinstance(request, ForgetTopics):
            request.waiter = _Asked(request, answer)
        self._execute(self._groups.decide(request, self._timestamps()))

    def _problem(self, request: GroupRequest) -> int:
        if self._is_dropped:
            return errors.NOT_COORDINATOR
        if self._load_problem is not None or not self.partition.shard.is_serving:
            return errors.COORDINATOR_NOT_AVAILABLE
        if isinstance(request, CommitOffsets | FetchOffsets) and self._is_isolated():
            return errors.COORDINATOR_NOT_AVAILABLE  # A name may stand for another topic by now.
        if not self.is_loaded:
            return errors.COORDINATOR_LOAD_IN_PROGRESS
        if not isinstance(request, _ALWAYS) and self._may_not_append():
            return errors.COORDINATOR_NOT_AVAILABLE  # Refused before it is decided (`log.md` §5.2); clients try again.
        return errors.NONE

    def _may_not_append(self) -> bool:
        """The disk is full, or the partition is being handed over: whoever leads next answers."""
        return self._storage_problem() is not None or not self.partition.shard.accepts_writes

    def topic_ids(self) -> set[TopicId]:
        """Of all committed offsets."""
        return self._groups.topic_ids()

    def counts(self) -> tuple[int, int]:
        """Groups, and their members."""
        return self._groups.counts()

    def drop(self, error_code: int) -> None:
        """This broker leads the partition no longer, or stops: who is parked is told, and nothing is kept."""
        self._is_dropped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._snapshot = None
        if self.is_loaded:
            _answer(self._groups.drain(error_code))

    # What was decided.

    def _execute(self, result: Result) -> None:
        """Append and replay before anything else is decided; replies are held until that has committed."""
        self._append(result.records)
        for key, at_ms in result.deadlines:
            self._arm(key, at_ms)
        if result.replies:
            self._reply(result.replies, has_written=bool(result.records))
        if result.records:
            self._snapshot_when_due()

    def _reply(self, replies: tuple[tuple[Waiter, object], ...], *, has_written: bool) -> None:
        """A commit that came after the request says by itself that this broker leads."""
        shard = self.partition.shard

        def committed(is_known: bool) -> None:
            if has_written or not is_known:
                _answer(replies, is_known=is_known)
            else:
                shard.confirm_leadership(lambda leads: _answer(replies, is_known=leads))

        shard.when_committed(self._last_index, committed)

    def _append(self, records: Sequence[LogRecord]) -> None:
        append_time = self._timestamps().append_time
        for batch in _batches(records):
            built = build_batch([(key, value, (), append_time) for key, value in batch])
            self._last_index = append_own(self.partition, built, append_time)
            for key, value in batch:
                self._groups.replay(key, value)

    def _arm(self, key: Key, at_ms: int | None) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if at_ms is not None:
            self._call_after(key, min(max(0, at_ms - self._timestamps().now_ms), TIMER_MS_MAX))

    def _call_after(self, key: Key, delay_ms: int) -> None:
        self._timers[key] = self._machine.call_later(delay_ms / 1_000, lambda: self._fired(key))

    def _fired(self, key: Key) -> None:
        if self._is_dropped:
            return
        del self._timers[key]
        if self._may_not_append():
            self._call_after(key, NOT_NOW_MS)
        else:
            self._execute(self._groups.expire(key, self._timestamps()))

    # Snapshots.

    def _snapshot_when_due(self) -> None:
        """The last snapshot tells how much there is; by then there may be more, which only makes the next one later."""
        last = self._groups.snapshot_end
        held = 0 if last is None else last.record_count
        behind = self.partition.log.end_offset - self.partition.log_start
        if self._snapshot is None and behind >= max(SNAPSHOT_RECORDS_MIN, SNAPSHOT_GROWTH * held):
            self._snapshot = self._groups.snapshot_chunks(TURN_RECORDS_MAX)
            # Which groups it holds is settled now: one that comes before the first chunk must lie behind this.
            self._snapshot_first_offset = self.partition.log.end_offset
            self._machine.turns.call_soon(self._append_chunk)

    def _append_chunk(self) -> None:
        """A chunk a turn: groups are served between two of them."""
        snapshot = self._snapshot
        if snapshot is None or self._is_dropped:
            return
        chunk = next(snapshot, None)
        if chunk is not None:
            self._append(chunk)
            self._machine.turns.call_soon(self._append_chunk)
            return
        first_offset = self._snapshot_first_offset
        self._append([snapshot.end_record(first_offset, self._timestamps().append_time)])
        self.partition.shard.when_committed(
            self._last_index, lambda known: self._snapshot_ended(first_offset, is_known=known)
        )

    def _snapshot_ended(self, first_offset: int, *, is_known: bool) -> None:
        if is_known and not self._is_dropped:
            self._snapshot = None
            self._move_log_start(first_offset)

    def _move_log_start(self, offset: int) -> None:
        self.partition.shard.move_log_start(self.partition.number, offset, self._timestamps().append_time)

    def _timestamps(self) -> Timestamps:
        clock = self._machine.clock
        now_ms, wall_ms = clock.monotonic_ms(), clock.wall_ms()
        append_time = self.partition.shard.append_time(wall_ms)
        return Timestamps(now_ms, append_time, min(wall_ms, append_time, self._began_ms + now_ms))


def _answer(replies: tuple[tuple[Waiter, object], ...], *, is_known: bool = True) -> None:
    """What is not known to be in the log is told as Kafka does: the client looks for the coordinator and asks again."""
    for asked, reply in replies:
        assert isinstance(asked, _Asked), "the host gave every request its handle"
        asked.answer(reply if is_known else refused(asked.request, errors.COORDINATOR_NOT_AVAILABLE))


def _records_from(start: int, buffers: Sequence[Buffer]) -> tuple[list[Record], int]:
    """The records at `start` and behind it, and the offset that follows."""
    records: list[Record] = []
    end_offset = start
    for buffer in buffers:
        for span in spans(buffer):
            found = read_records(memoryview(buffer)[span.position : span.position + span.size])
            records += [record for record in found if record.offset >= start]
            end_offset = span.header.end_offset
    return records, end_offset


def _batches(records: Sequence[LogRecord]) -> Iterator[list[LogRecord]]:
    batch: list[LogRecord] = []
    byte_count = 0
    for record in records:
        size = len(record.key) + len(record.value or b"")
        if batch and (len(batch) >= BATCH_RECORDS_MAX or byte_count + size > BATCH_BYTES_MAX):
            yield batch
            batch, byte_count = [], 0
        batch.append(record)
        byte_count += size
    if batch:
        yield batch
