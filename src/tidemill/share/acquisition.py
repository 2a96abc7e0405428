"""What a ShareFetch acquires from the record batches that a read has returned.

Only records whose bytes are in the response are acquired.  Otherwise, a consumer would acknowledge the missing records
as gaps (Java's consumer does), and they would be lost without an error.  Offsets in a batch are consecutive, so the
headers suffice: no batch is opened, except to find records whose time to live has passed (`time_to_live`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tidemill.batches.batch import BatchHeader, Buffer, spans
from tidemill.share.claim import Acquired, Held
from tidemill.share.interval_map import Interval, joined
from tidemill.share.leases import Leases
from tidemill.share.record_status import Run
from tidemill.share.time_to_live import OffsetRange, TimeToLive, are_all_expired


class AbortedRecords(NamedTuple):
    """The offsets from `first` up to, but not including, `end`, at which a producer aborted its records."""

    producer_id: int
    first: int
    end: int


class FetchLimits(NamedTuple):
    """The limits of a ShareFetch on the records from one partition."""

    records_max: int
    batch_size: int  # the number of records after which a range of acquired records ends, at the end of a batch
    is_strict: bool  # records_max divides a batch, and ranges are not divided (KIP-1206: record limit mode)


class ShareFetched(NamedTuple):
    """A partition's part of the response to a ShareFetch."""

    records: list[memoryview]  # complete batches, ascending, each with an acquired record
    acquired: list[Acquired]  # ascending and disjoint
    is_repeated: bool = False  # the consumer held the records before, so they stay held if the response is not sent

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.records))


class _Batch(NamedTuple):
    first: int
    end: int
    bytes: memoryview


class UndecidedBatch(NamedTuple):
    """A batch to be opened, because some of its records may have expired."""

    first: int  # the first available offset: those below it need not be looked at
    bytes: memoryview


class BatchesRead:
    """
    The complete batches that one read of a partition has returned, below the offset `end`.

    `parts` are the buffers of the read, each with complete batches, except that the last one may be incomplete.  `end`
    is the high watermark, or the last stable offset for a group that reads committed records only, with the records in
    `aborted`.
    """

    def __init__(self, parts: Iterable[Buffer], end: int, aborted: Iterable[AbortedRecords] = ()) -> None:
        aborted = tuple(aborted)
        self._data: list[_Batch] = []
        self._without_data: list[OffsetRange] = []
        self._expired: list[OffsetRange] = []
        self._undecided: list[UndecidedBatch] = []
        last_end = 0
        for part in parts:
            view = memoryview(part)
            for position, size, header in spans(part):
                if header.end_offset > end:
                    return
                assert last_end <= header.base_offset, "a read returns batches in the order of their offsets"
                last_end = header.end_offset
                if header.is_control or _is_aborted(header, aborted):
                    self._without_data.append((header.base_offset, last_end))
                else:
                    self._data.append(_Batch(header.base_offset, last_end, view[position : position + size]))

    @property
    def offset_count(self) -> int:
        """The number of offsets in the batches."""
        return sum(one.end - one.first for one in self._data) + sum(end - first for first, end in self._without_data)

    def check_ages(self, leases: Leases, ttl: TimeToLive, wall: int) -> None:
        """Find the batches whose available records have expired, and those that must be opened to find them."""
        for one in self._data:
            available = leases.next_available(one.first, one.end, wall)
            if available is not None:
                match are_all_expired(one.bytes, ttl, wall):
                    case True:
                        self._expired.append((one.first, one.end))
                    case None:
                        self._undecided.append(UndecidedBatch(available.first, one.bytes))

    def take_undecided(self, bytes_max: int) -> list[UndecidedBatch]:
        """
        Remove and return batches that must be opened: at least one, if there is any, and no more than `bytes_max` of
        further ones.  The caller passes their expired records to `add_expired`.
        """
        taken: list[UndecidedBatch] = []
        while self._undecided and (not taken or len(self._undecided[0].bytes) <= bytes_max):
            taken.append(self._undecided.pop(0))
            bytes_max -= len(taken[-1].bytes)
        return taken

    def add_expired(self, ranges: Iterable[OffsetRange]) -> None:
        self._expired += ranges

    def archive(self, leases: Leases) -> list[Run]:
        """
        Archive the available offsets without data for consumers, and the expired records, and return the decisions,
        which the caller proposes.

        Call this after every read.  Otherwise, the start of the share never passes these offsets, and the next read
        begins at them again.
        """
        without_data = [run for first, end in self._without_data for run in leases.archive(first, end)]
        return without_data + [run for first, end in self._expired for run in leases.archive_expired(first, end)]

    def available_bytes(self, leases: Leases, wall: int, enough: int) -> int:
        """
        Return the size of the batches with available records; stop counting at `enough`.

        A fetch compares it with min_bytes before it acquires anything, because it acquires only what it returns.
        """
        size = 0
        for one in self._data if leases.lock_room > 0 else ():
            if size >= enough:
                break
            if leases.next_available(one.first, one.end, wall):
                size += len(one.bytes)
        return size

    def count_available(self, leases: Leases, wall: int, count_max: int) -> tuple[int, int]:
        """
        Count the available records up to about `count_max`.  Return their number, and how many offsets were looked at.
        """
        if not self._data:
            return 0, 0
        begin, end = self._data[0].first, self._data[-1].end
        count, offset = 0, begin
        for found in leases.availability.available(begin, end, wall):
            count, offset = count + found.end - found.first, found.end
            if count >= count_max:
                break
        return count, offset - begin

    def acquire(
        self, leases: Leases, member: str, limits: FetchLimits, *, now: int, wall: int, lock_ms: int | None = None
    ) -> ShareFetched:
        """Acquire the available records for a consumer.  `lock_ms` is the duration of the locks; None: the group's."""
        acquired = leases.acquire(
            member,
            [(one.first, one.end) for one in self._data],
            records_max=limits.records_max,
            batch_size=limits.batch_size,
            is_limit_strict=limits.is_strict,
            now=now,
            wall=wall,
            lock_ms=lock_ms,
        )
        sent = list(_with_records_of(self._data, acquired))
        if not limits.is_strict:
            acquired = list(_divided(acquired, [one.first for one in sent], limits.batch_size))
        return ShareFetched([one.bytes for one in sent], acquired)

    def held_bytes(self, leases: Leases, member: str) -> int:
        """Return the size of the batches with records that a consumer already holds."""
        held = list(leases.held_by(member))
        return sum(
            len(batch.bytes)
            for batch in self._data
            if any(one.first < batch.end and batch.first < one.end for one in held)
        )

    def acquire_again(self, leases: Leases, member: str, *, now: int, lock_ms: int | None = None) -> ShareFetched:
        """Return the records in these batches that a consumer already holds, and renew their locks."""
        held = (
            Interval(first, end, claim.delivery_count)
            for batch in self._data
            for first, end, claim in leases.within(batch.first, batch.end)
            if isinstance(claim, Held) and claim.member == member
        )
        acquired = [Acquired(*one) for one in joined(held)]
        leases.renew(member, acquired, now=now, lock_ms=lock_ms)
        records = [one.bytes for one in _with_records_of(self._data, acquired)]
        return ShareFetched(records, acquired, is_repeated=True)


def _is_aborted(header: BatchHeader, aborted: Sequence[AbortedRecords]) -> bool:
    if not header.is_transactional:
        return False
    return any(one.producer_id == header.producer_id and one.first <= header.base_offset < one.end for one in aborted)


def _with_records_of(batches: Iterable[_Batch], acquired: Iterable[Acquired]) -> Iterator[_Batch]:
    """Yield the batches that contain at least one acquired record."""
    ranges = iter(acquired)
    current = next(ranges, None)
    for batch in batches:
        while current is not None and current.end <= batch.first:
            current = next(ranges, None)
        if current is None:
            return
        if current.first < batch.end:
            yield batch


def _divided(acquired: Iterable[Acquired], batch_starts: Sequence[int], batch_size: int) -> Iterator[Acquired]:
    """
    Divide long ranges where a batch starts after at least `batch_size` records, because clients acknowledge the records
    of a range together.
    """
    for first, end, delivery_count in acquired:
        for at in range(bisect_right(batch_starts, first), bisect_left(batch_starts, end)):
            if batch_starts[at] - first >= batch_size:
                yield Acquired(first, batch_starts[at], delivery_count)
                first = batch_starts[at]
        yield Acquired(first, end, delivery_count)
