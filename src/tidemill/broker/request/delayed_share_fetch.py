"""A request for records of shares in progress: it acquires available records, and responds once.

The request is a ShareFetch, which also acknowledges records, or a ShareReceive.  What differs is in the request's
`ShareConsumer`.

acknowledge ─▶ committed ──────────────────────────────────────────────────────┐
evaluate ─▶ enough bytes, an error, or the wait is over ─▶ acquire ─▶ response ◀┘
   ▲   ├──▶ a read must wait for the disk ─▶ reader thread ─▶ evaluate
   │   └──▶ records may have expired ─▶ their batches are opened in a thread ─▶ evaluate
   └─────── a share of the request has been woken, or the wait is over
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from tidemill.broker.request.request_context import RequestContext
from tidemill.broker.shares.led_share import LedShare, ShareKey
from tidemill.broker.shares.share_reads import ReadRange, read_ranges
from tidemill.model import errors
from tidemill.model.errors import KafkaError
from tidemill.shard.partition import REQUEST_COST, Partition
from tidemill.shard.pending import Pending
from tidemill.share.acquisition import BatchesRead, FetchLimits, ShareFetched, UndecidedBatch
from tidemill.share.time_to_live import OffsetRange, TimeToLive, expired_in
from tidemill.storage.disk import Buffer
from tidemill.storage.partition.partition_log import OffsetGone
from tidemill.storage.partition.segment import SegmentDamaged

OPENED_BYTES_MAX: Final = 256 << 10  # opened at a time, because a thread that opens batches slows down the event loop


R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Fetched = dict[ShareKey, tuple[LedShare, ShareFetched]]
Failures = dict[ShareKey, KafkaError]


class _Unread(NamedTuple):
    """What is to be read of one share in a reader thread."""

    key: ShareKey
    led: LedShare
    ranges: Sequence[ReadRange]

    @property
    def bytes_max(self) -> int:
        return sum(one.bytes_max for one in self.ranges)


class ShareConsumer(Protocol[R_co]):
    """A consumer and its request."""

    @property
    def member(self) -> str: ...

    @property
    def is_open(self) -> bool:
        """Whether the consumer may still acquire records: its session is open."""
        ...

    def when_ready(self, ready: Callable[[], None]) -> None:
        """Call `ready` when nothing but the records keeps the response: the acknowledgements are committed."""
        ...

    def share(self, key: ShareKey, partition: Partition) -> LedShare | None:
        """Return a share; None if it is not open yet.  Raise KafkaError if it cannot be opened."""
        ...

    def wanted(self, led: LedShare, records_max: int, bytes_max: int, wall: int) -> Sequence[ReadRange]:
        """Return what to read; nothing if the share has no records for the consumer."""
        ...

    def wanted_bytes(self, led: LedShare, read: BatchesRead, enough: int, wall: int) -> int:
        """Return the size of the batches that the consumer can get now; `enough` or more is enough."""
        ...

    def acquire(self, led: LedShare, read: BatchesRead, limits: FetchLimits) -> ShareFetched: ...

    def response(self, fetched: Fetched, failures: Failures) -> R_co: ...


class DelayedShareFetch(Pending[R], Generic[R]):
    """
    Implements `share_host.WaitingFetch`.  The records are acquired immediately before the response, and only then: a
    fetch that waits holds none.
    """

    __slots__ = (
        "_batches",
        "_bytes_read",
        "_consumer",
        "_context",
        "_deadline",
        "_failures",
        "_fetched",
        "_is_ready",
        "_keys",
        "_limits",
        "_max_bytes",
        "_min_bytes",
        "_records_read",
        "_reserved",
        "_timer",
        "_unconfirmed",
    )

    def __init__(
        self,
        context: RequestContext,
        consumer: ShareConsumer[R],
        keys: Iterable[ShareKey],
        limits: FetchLimits,
        *,
        min_bytes: int,
        max_bytes: int,
        max_wait_ms: int,
    ) -> None:
        super().__init__()
        self._context = context
        self._consumer = consumer
        self._keys = list(keys)
        self._limits = limits
        self._min_bytes = min_bytes
        self._max_bytes = min(max_bytes, context.broker.fetch_bytes_max)
        self._deadline = context.broker.clock.monotonic_ms() + max(max_wait_ms, 0)
        self._timer: Any = None
        self._reserved = 0  # bytes counted in `ConnectionMemory` for the read in progress
        self._batches: dict[ShareKey, tuple[LedShare, BatchesRead]] = {}  # what this evaluation has read
        self._bytes_read = 0  # by this evaluation
        self._records_read = 0  # those that are available
        self._failures: Failures = {}
        self._fetched: Fetched | None = None  # None: not yet
        self._is_ready = False
        self._unconfirmed = 0  # shares with acquired records that are delivered only if this broker still leads them

    @property
    def member(self) -> str:
        return self._consumer.member

    def begin(self) -> None:
        """Wait for records, and for the commit of the request's acknowledgements."""
        self._consumer.when_ready(self._ready)
        broker = self._context.broker
        wait_ms = self._deadline - broker.clock.monotonic_ms()
        broker.shares.begin(self, self._keys, self._deadline)
        if wait_ms > 0:
            self._timer = broker.machine.call_later(wait_ms / 1000, broker.shares.waits_over)
        else:
            broker.shares.waits_over()

    def cancel(self) -> None:
        """Acquire nothing, or release what was acquired without a delivery: the client has disconnected."""
        if not self.is_done:
            if self._fetched is None:
                self._stop_timer()
                self._end_read()
                self._context.broker.shares.leave(self)
            else:
                self._undo()
        self.is_done = True
        self._then = self._failed = None

    def evaluate(self) -> None:
        if not self.is_done:
            self._failures.clear()
            self._batches.clear()
            self._bytes_read = self._records_read = 0
            self._evaluate()

    def _evaluate(self) -> None:
        try:
            self._read_and_acquire()
        except Exception as error:  # only this request fails
            self._failed_with(error)

    def _failed_with(self, error: BaseException) -> None:
        self._stop_timer()
        self._end_read()
        self._context.broker.shares.leave(self)
        self.fail(error)

    def _read_and_acquire(self) -> None:
        """Read available records, and then either acquire them and respond, or wait."""
        unread = self._read_available()
        if unread:
            self._read_elsewhere(unread)
            return
        if self._open_next():
            return
        batches, self._batches = self._batches, {}
        self._end_read()
        self._archive_without_data(batches)
        host = self._context.broker.shares
        wall = host.wall_ms
        consumer = self._consumer
        missing = max(self._min_bytes, 1)
        for led, read in batches.values() if consumer.is_open else ():
            if missing > 0:
                missing -= consumer.wanted_bytes(led, read, missing, wall)
        is_over = self._deadline <= self._context.broker.clock.monotonic_ms() or not consumer.is_open
        if missing > 0 and not (is_over or self._failures or not self._keys):
            host.keep_waiting(self, self._left(wall))
            return
        self._fetched = self._acquire(batches) if consumer.is_open else {}
        self._stop_timer()
        host.finish(self, self._left(wall))
        self._confirm(self._fetched)
        self._respond()

    def _confirm(self, fetched: Fetched) -> None:
        """
        Confirm the leadership of ordered and exclusive shares: a leader that has been replaced unnoticed must not
        deliver a record while its successor delivers a related one.
        """
        confirmed = [(key, led) for key, (led, _) in fetched.items() if led.leases.settings.is_confirmed]
        self._unconfirmed = len(confirmed)
        for key, led in confirmed:
            led.partition.shard.confirm_leadership(partial(self._confirmed, key))

    def _confirmed(self, key: ShareKey, leads: bool) -> None:
        self._unconfirmed -= 1
        if not leads and self._fetched is not None:
            del self._fetched[key]
            message = "this broker no longer leads the partition: no record was delivered"
            self._failures[key] = KafkaError(errors.NOT_LEADER_OR_FOLLOWER, message)
        self._respond()

    def _left(self, wall: int) -> set[ShareKey]:
        """Return the shares that other fetches should evaluate: those with available records, and those with errors."""
        host = self._context.broker.shares
        left = set(self._failures)
        for key in self._keys:
            led = None if key in left else host.led(key)
            if led is not None and led.has_available(wall):
                left.add(key)
        return left

    # Reading.

    def _read_available(self) -> list[_Unread]:
        """
        Read the shares' available records, as far as no read waits for the disk.  Return the others with their ranges.
        """
        broker = self._context.broker
        host, wall = broker.shares, broker.shares.wall_ms
        unread: list[_Unread] = []
        room = min(self._max_bytes, broker.memory.response_room()) - self._bytes_read
        wanted = self._limits.records_max - self._records_read
        for key in self._keys:
            if key in self._batches or key in self._failures:
                continue
            try:
                partition = host.partition(key)
                led = self._consumer.share(key, partition)
            except KafkaError as problem:
                self._failures[key] = problem
                continue
            is_first = not (self._batches or unread)
            if led is None or (not is_first and (room <= 0 or wanted <= 0)):
                continue
            if led.problem is not None:
                self._failures[key], led.problem = led.problem, None
                continue
            ranges = self._consumer.wanted(led, wanted, room, wall)
            if not ranges:
                continue
            try:
                read = read_ranges(partition, ranges, partition.high_watermark, may_wait=False)
            except (SegmentDamaged, OffsetGone) as error:
                self._read_failed(key, led, error)
                continue
            if read is None:
                unread.append(_Unread(key, led, ranges))
                room -= unread[-1].bytes_max
            elif read[1] <= room or is_first:  # a batch that does not fit is left for the next response
                self._take(key, led, *read)
                room -= read[1]
                wanted = self._limits.records_max - self._records_read
        return unread

    def _take(self, key: ShareKey, led: LedShare, parts: Sequence[Buffer], size: int) -> None:
        """Keep what was read of a share."""
        read = BatchesRead(parts, led.partition.high_watermark)
        self._batches[key] = led, read
        if led.time_to_live.is_limited:
            read.check_ages(led.leases, led.time_to_live, self._context.broker.shares.wall_ms)
        self._bytes_read += size
        if read.offset_count:
            led.record_bytes = max(size // read.offset_count, 1)
        wall, count_max = self._context.broker.shares.wall_ms, self._limits.records_max
        available, looked_at = read.count_available(led.leases, wall, count_max)
        if available:
            led.sparseness = looked_at / available
        self._records_read += available

    def _read_elsewhere(self, unread: Sequence[_Unread]) -> None:
        """Read in a reader thread, and then evaluate again."""
        broker = self._context.broker
        broker.metrics.fetch_cache_misses += 1
        reserved = sum(one.bytes_max for one in unread)
        self._reserved += reserved
        broker.memory.begin_read(reserved)
        ends = [led.partition.high_watermark for _, led, _ in unread]

        def read() -> list[tuple[list[Buffer], int] | Exception]:
            found: list[tuple[list[Buffer], int] | Exception] = []
            for (_, led, ranges), end in zip(unread, ends, strict=True):
                try:
                    result = read_ranges(led.partition, ranges, end, may_wait=True)
                except (SegmentDamaged, OffsetGone) as error:
                    found.append(error)
                    continue
                assert result is not None, "a read that may wait answers"
                found.append(result)
            return found

        def done(found: list[tuple[list[Buffer], int] | Exception]) -> None:
            if self.is_done:
                return
            for (key, led, _), result in zip(unread, found, strict=True):
                if isinstance(result, Exception):
                    self._read_failed(key, led, result)
                else:
                    self._take(key, led, *result)
            self._evaluate()

        def failed(error: BaseException) -> None:
            if not self.is_done:
                self._failed_with(error)

        broker.machine.read_jobs.submit(read, done, failed)

    def _open_next(self) -> bool:
        """
        Open some batches whose records may have expired, off the event loop, and then evaluate again.  Return whether
        there are any.
        """
        opened: list[tuple[BatchesRead, TimeToLive, list[UndecidedBatch]]] = []
        room = OPENED_BYTES_MAX
        for led, read in self._batches.values():
            if room > 0 and (batches := read.take_undecided(room)):
                opened.append((read, led.time_to_live, batches))
                room -= sum(len(it.bytes) for it in batches)
        wall = self._context.broker.shares.wall_ms

        def find() -> list[list[OffsetRange]]:
            return [
                [it for one in batches for it in expired_in(one.bytes, ttl, wall, one.first)]
                for _, ttl, batches in opened
            ]

        def done(expired: list[list[OffsetRange]]) -> None:
            if not self.is_done:
                for (read, _, _), ranges in zip(opened, expired, strict=True):
                    read.add_expired(ranges)
                self._evaluate()

        def failed(error: BaseException) -> None:
            if not self.is_done:
                self._failed_with(error)

        if opened:
            self._context.broker.machine.opening_jobs.submit(find, done, failed)
        return bool(opened)

    def _read_failed(self, key: ShareKey, led: LedShare, error: Exception) -> None:
        """Note a failed read.  Records that retention has just removed are no error: the share's start follows."""
        code = self._context.broker.read_failed(led.partition, error)
        if isinstance(error, OffsetGone):
            self._take(key, led, (), 0)
        else:
            self._failures[key] = KafkaError(code, str(error))

    def _end_read(self) -> None:
        self._context.broker.memory.end_read(self._reserved)
        self._reserved = 0

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Acquiring.

    def _archive_without_data(self, batches: dict[ShareKey, tuple[LedShare, BatchesRead]]) -> None:
        host = self._context.broker.shares
        for key, (led, read) in batches.items():
            if host.led(key) is led and (runs := read.archive(led.leases)):
                host.decide(led, runs)

    def _acquire(self, batches: dict[ShareKey, tuple[LedShare, BatchesRead]]) -> Fetched:
        """Acquire records in the order of the request, up to its limit on records."""
        host, limits = self._context.broker.shares, self._limits
        fetched: Fetched = {}
        for key, (led, read) in batches.items():
            if limits.records_max <= 0 or host.led(key) is not led:
                continue
            found = self._consumer.acquire(led, read, limits)
            if found.acquired:
                fetched[key] = led, found
                count = sum(one.end - one.first for one in found.acquired)
                limits = limits._replace(records_max=limits.records_max - count)
        return fetched

    # Responding.

    def _ready(self) -> None:
        self._is_ready = True
        self._respond()

    def _respond(self) -> None:
        """Respond when the records are acquired and the acknowledgements are committed."""
        if self._fetched is None or not self._is_ready or self._unconfirmed or self.is_done:
            return
        for led, found in self._fetched.values():
            led.partition.counters.bytes_out += found.size_bytes
            led.partition.cost += REQUEST_COST + found.size_bytes
            led.partition.counters.fetch_requests += 1
            self._context.broker.metrics.fetch_bytes += found.size_bytes
        try:
            response = self._consumer.response(self._fetched, self._failures)
        except Exception as error:
            self._undo()
            self.fail(error)
            return
        self.complete(response)

    def _undo(self) -> None:
        """Release the acquired records, which the client does not get, without counting a delivery."""
        for led, found in (self._fetched or {}).values():
            if not found.is_repeated:
                self._context.broker.shares.undo(led, found.acquired)
