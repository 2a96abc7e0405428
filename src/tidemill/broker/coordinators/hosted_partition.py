"""HostedPartition: runs one replicated core on the broker that leads the core's partition.

    load:  log start ─▶ read, replay … ─▶ end of the log ─▶ loaded
    ask:   decide ─▶ records ─▶ append ─▶ replay … commit ─▶ leadership confirmed ─▶ replies

A reply is sent once every entry from which it was computed is committed, and it is confirmed that this broker was still
the leader after the request arrived.  The same holds for requests that only read.  When leadership is lost, the core
and all timers are dropped, and the next leader loads a new core from the log.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from tidemill.batches.batch import spans
from tidemill.batches.builder import build_batch
from tidemill.batches.records import Record, read_records
from tidemill.broker.coordinators.replicated_core import ReplicatedCore, RequestT, RequestT_contra
from tidemill.broker.machine import Machine
from tidemill.coordinator.result import Key, Result, Waiter
from tidemill.coordinator.timestamps import Timestamps
from tidemill.model import errors
from tidemill.shard.append import append_own
from tidemill.shard.partition import Partition
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown
from tidemill.storage.disk import Buffer
from tidemill.storage.partition.partition_log import OffsetGone
from tidemill.storage.partition.segment import SegmentDamaged

LOAD_BYTES: Final = 64 << 10  # read per job while loading: about a thousand records
TURN_RECORDS_MAX: Final = 200  # replayed per turn while loading, so that other requests wait only a few milliseconds
BATCH_RECORDS_MAX: Final = 1_000  # in one batch; the other records of a Result go into further batches
BATCH_BYTES_MAX: Final = 1 << 20  # in one batch, unless a single record is larger
SNAPSHOT_RECORDS_MIN: Final = 10_000  # no snapshot is taken while the log has fewer records
SNAPSHOT_GROWTH: Final = 4  # no snapshot is taken until the log has this many times as many records as a snapshot
LOAD_RETRY_S: Final = 5.0  # pause before loading again after a read has found damage; a second read might succeed
NOT_NOW_MS: Final = 1_000  # interval at which a deadline is retried while nothing may be appended
TIMER_MS_MAX: Final = 24 * 3_600_000  # longest delay of a timer; for a later deadline, the core is called early

Answer = Callable[[Any], None]  # takes the reply to a request
CoreT = TypeVar("CoreT", bound=ReplicatedCore[Any, Any])


class PartitionOwner(Protocol[RequestT_contra]):
    """What a hosted partition needs from its creator."""

    def rejection(self, request: RequestT_contra, reason: int | OutcomeUnknown) -> object:
        """Return the reply that rejects `request`.  The reason is an error code or an unknown outcome."""
        ...

    def storage_problem(self) -> str | None:
        """Return why appends are refused now, such as a full disk; None if they are accepted."""
        ...

    def has_stale_metadata(self) -> bool:
        """Return whether this broker's cluster image may be stale, so that it may map a name to a deleted topic."""
        ...

    def committed(self) -> None:
        """Called after a commit, and before the replies that depend on the commit are sent."""
        ...

    def loaded(self, hosted: "HostedPartition[Any, Any]") -> None:
        """Called once per partition, when the partition starts to accept requests."""
        ...


class _Asked(Generic[RequestT]):
    """The `Waiter` that a core gets with a request: the request, and the callback for the reply."""

    __slots__ = ("answer", "request")

    def __init__(self, request: RequestT, answer: Answer) -> None:
        self.request = request
        self.answer = answer


class HostedPartition(Generic[RequestT, CoreT]):
    """
    A core and its partition, for as long as this broker leads the partition.  Call `load` or `begin` first, and then
    `ask`; `drop` is the last call.
    """

    def __init__(self, partition: Partition, core: CoreT, machine: Machine, owner: PartitionOwner[RequestT]) -> None:
        self.partition = partition
        self.core = core
        self.is_loaded = False
        self._machine = machine
        self._owner = owner
        self._began_ms = machine.clock.wall_ms() - machine.clock.monotonic_ms()
        self._is_dropped = False
        self._load_problem: str | None = None
        self._load_from = partition.log_start
        self._load_end = partition.log.end_offset
        self._last_index = 0  # log index of the newest entry from which a reply may have been computed
        self._timers: dict[Key, Any] = {}
        self._snapshot: Iterator[Sequence[Any]] | None = None  # the snapshot in progress
        self._snapshot_first_offset = 0

    # Methods that load the core's state from the log.

    def load(self) -> None:
        """
        Replay the log in parts.  Requests are refused until the replay is complete, so no other records are appended.
        """
        if self._load_from >= self._load_end:
            self.begin()
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

    def begin(self) -> None:
        """Begin to accept requests: the core's state is complete."""
        self.is_loaded = True
        self._execute(self.core.loaded(self._timestamps()))
        first_offset = self.core.snapshot_first_offset
        if first_offset is not None and first_offset > self.partition.log_start:
            self._move_log_start(first_offset)  # the leader that closed the snapshot may have stopped before doing this
        self._owner.loaded(self)

    def _read(self, found: tuple[list[Record], int] | Exception) -> None:
        if self._is_dropped:
            return
        if isinstance(found, Exception):
            self._cannot_load(str(found))
            if isinstance(found, SegmentDamaged):
                self.partition.shard.damage.suspect(found)
                self._machine.call_later(LOAD_RETRY_S, self._load_again)  # has no effect if leadership has been lost
            return
        records, end_offset = found
        if end_offset <= self._load_from:
            self._cannot_load(f"nothing can be read at offset {self._load_from}")
            return
        self._load_from = end_offset
        self._replay(records, 0)

    def _replay(self, records: list[Record], start: int) -> None:
        """Replay a few records per turn of the event loop, so that a long load does not delay other requests."""
        if self._is_dropped:
            return
        core = self.core
        for record in records[start : start + TURN_RECORDS_MAX]:
            try:
                core.replay((core.decode(record.key, record.value),), record.offset + 1)
            except ValueError as error:
                self._cannot_load(f"the record at offset {record.offset} is malformed or unknown: {error}")
                return
        start += TURN_RECORDS_MAX
        if start < len(records):
            self._machine.turns.call_soon(lambda: self._replay(records, start))
        else:
            self.load()

    def _cannot_load(self, problem: str) -> None:
        """Log `problem` and refuse all requests: a core with incomplete state would give wrong replies."""
        self._load_problem = problem
        topic, number = self.partition.topic, self.partition.number
        self._machine.events.error("coordinator cannot be loaded", topic=topic, partition=number, problem=problem)

    def _load_again(self) -> None:
        if not self._is_dropped:
            self._load_problem = None
            self.load()

    # Methods that pass requests to the core.

    def ask(self, request: RequestT, answer: Answer | None) -> None:
        """
        Decide `request`.  `answer` is called once with the reply, immediately or later; it is None if the caller needs
        no reply.
        """
        problem = self._problem(request)
        if problem != errors.NONE:
            if answer is not None:
                answer(self._owner.rejection(request, problem))
            return
        waiter = _Asked(request, _ignore if answer is None else answer)
        self._execute(self.core.decide(request, waiter, self._timestamps()))

    def _problem(self, request: RequestT) -> int:
        if self._is_dropped:
            return errors.NOT_COORDINATOR
        if self._load_problem is not None or not self.partition.shard.is_serving:
            return errors.COORDINATOR_NOT_AVAILABLE
        if self.core.needs_current_metadata(request) and self._owner.has_stale_metadata():
            return errors.COORDINATOR_NOT_AVAILABLE
        if not self.is_loaded:
            return errors.COORDINATOR_LOAD_IN_PROGRESS
        if self.core.is_refused_when_full(request) and self._may_not_append():
            return errors.COORDINATOR_NOT_AVAILABLE  # refuse before the core decides anything; clients retry
        return errors.NONE

    def _may_not_append(self) -> bool:
        """
        Return whether the disk is full, or leadership is being transferred, which an append would delay.
        """
        return self._owner.storage_problem() is not None or not self.partition.shard.accepts_writes

    def drop(self, error_code: int) -> None:
        """
        Answer every parked request with `error_code` and drop all state: leadership has been lost, or the broker is
        stopping.
        """
        self._is_dropped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._snapshot = None
        if self.is_loaded:
            self._answer(self.core.drain(error_code), is_known=True)

    # Methods that execute a Result: they append its records and send its replies.

    def _execute(self, result: Result[Any]) -> None:
        """
        Append and replay the records of `result`, before the core decides anything else.  The replies wait for the
        commit.
        """
        self._append(result.records, is_one_batch=self.core.is_atomic)
        for key, at_ms in result.deadlines:
            self._arm(key, at_ms)
        if result.replies:
            self._reply(result.replies, has_appended=bool(result.records))
        if result.records:
            self._snapshot_when_due()

    def _append(self, records: Sequence[Any], *, is_one_batch: bool) -> None:
        if not records:
            return
        core, partition = self.core, self.partition
        append_time = self._timestamps().append_time
        encoded = [core.encode(record) for record in records]
        start = 0
        for end in [len(records)] if is_one_batch else _batch_ends(encoded):
            batch = build_batch([(key, value, (), append_time) for key, value in encoded[start:end]])
            self._last_index = append_own(partition, batch, append_time)
            core.replay(records[start:end], partition.log.end_offset)
            start = end

    def _reply(self, replies: tuple[tuple[Waiter, object], ...], *, has_appended: bool) -> None:
        """
        Send the replies when every entry from which they were computed is committed.  If an entry was appended for the
        request, its commit proves leadership; otherwise a majority must confirm leadership.
        """
        shard = self.partition.shard

        def known(is_known: bool) -> None:
            if is_known:
                self._owner.committed()
            self._answer(replies, is_known=is_known)

        def committed(is_committed: bool) -> None:
            if has_appended or not is_committed:
                known(is_committed)
            else:
                shard.confirm_leadership(known)

        shard.when_committed(self._last_index, committed)

    def _answer(self, replies: tuple[tuple[Waiter, object], ...], *, is_known: bool) -> None:
        for asked, reply in replies:
            assert isinstance(asked, _Asked), "the host gave every request its handle"
            asked.answer(reply if is_known else self._owner.rejection(asked.request, OUTCOME_UNKNOWN))

    # Methods that call the core at its deadlines.

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
            self._execute(self.core.expire(key, self._timestamps()))

    # Methods that append snapshots of the core's state.

    def _snapshot_when_due(self) -> None:
        partition = self.partition
        record_count = partition.log.end_offset - partition.log_start
        if self._snapshot is None and record_count >= max(
            SNAPSHOT_RECORDS_MIN, SNAPSHOT_GROWTH * self.core.snapshot_size
        ):
            # All later records have this offset or a higher one, so the core may capture the snapshot's state now.
            self._snapshot_first_offset = partition.log.end_offset
            self._snapshot = self.core.snapshot(self._snapshot_first_offset, self._timestamps().append_time)
            self._machine.turns.call_soon(self._append_chunk)

    def _append_chunk(self) -> None:
        """Append one chunk per turn of the event loop, so that requests can be decided between chunks."""
        snapshot = self._snapshot
        if snapshot is None or self._is_dropped:
            return
        chunk = next(snapshot, None)
        if chunk is not None:
            self._append(chunk, is_one_batch=False)
            self._machine.turns.call_soon(self._append_chunk)
            return
        first_offset = self._snapshot_first_offset
        self.partition.shard.when_committed(
            self._last_index, lambda known: self._snapshot_ended(first_offset, is_known=known)
        )

    def _snapshot_ended(self, first_offset: int, *, is_known: bool) -> None:
        if is_known and not self._is_dropped:
            self._owner.committed()
            self._snapshot = None
            self._move_log_start(first_offset)

    def _move_log_start(self, offset: int) -> None:
        self.partition.shard.move_log_start(self.partition.number, offset, self._timestamps().append_time)

    def _timestamps(self) -> Timestamps:
        clock = self._machine.clock
        now_ms, wall_ms = clock.monotonic_ms(), clock.wall_ms()
        append_time = self.partition.shard.append_time(wall_ms)
        return Timestamps(now_ms, append_time, min(wall_ms, append_time, self._began_ms + now_ms))


def _ignore(_: object) -> None:
    """Ignore the reply to a request whose caller does not need it."""


def _records_from(start: int, buffers: Sequence[Buffer]) -> tuple[list[Record], int]:
    """Return the records at or above offset `start`, and the end offset of the last batch."""
    records: list[Record] = []
    end_offset = start
    for buffer in buffers:
        for span in spans(buffer):
            found = read_records(memoryview(buffer)[span.position : span.position + span.size])
            records += [record for record in found if record.offset >= start]
            end_offset = span.header.end_offset
    return records, end_offset


def _batch_ends(encoded: Sequence[tuple[bytes | None, bytes | None]]) -> Iterator[int]:
    """For each batch, yield the index in `encoded` of the first record after the batch."""
    start = byte_count = 0
    for index, (key, value) in enumerate(encoded):
        size = len(key or b"") + len(value or b"")
        if index > start and (index - start >= BATCH_RECORDS_MAX or byte_count + size > BATCH_BYTES_MAX):
            yield index
            start, byte_count = index, 0
        byte_count += size
    if start < len(encoded):
        yield len(encoded)
