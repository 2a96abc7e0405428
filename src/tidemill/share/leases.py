"""The leader's volatile state of a share: which consumer has acquired which records, and which decisions are pending.

    acquire      a consumer holds an available record until its acquisition lock expires
    decide       an acknowledgement or an expired lock becomes runs, which the caller proposes as a SHARE row
    committed    the row has been applied to the share, so these records are removed from `Leases`

None of this state survives a loss of leadership.  The next leader creates an empty `Leases` for the share, and delivers
the acquired records again.  Times: `now` is monotonic time in ms, for locks; `wall` is in ms since the epoch, for
release times.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from tidemill.model import errors
from tidemill.model.back_off import Random
from tidemill.share.acknowledgement import AcknowledgedRange, Acknowledgement, AcknowledgementRefused
from tidemill.share.active_member import ActiveMember
from tidemill.share.availability import Availability
from tidemill.share.claim import Acquired, Claim, Decided, Held, is_replaced_by
from tidemill.share.interval_map import Interval, IntervalMap, joined
from tidemill.share.lone_member import consumer_of
from tidemill.share.outcome import after_acknowledgement, after_expiry, after_failure
from tidemill.share.record_status import RecordState, RecordStatus, Run
from tidemill.share.share import Share
from tidemill.share.share_settings import Mode, Order, ShareSettings

_NO_RELEASE_TIME: Final = 1 << 63  # a time so late that records whose release is delayed count as available


class Leases:
    """The records of one share that are acquired, or whose release or new status is not committed yet."""

    def __init__(self, share: Share, settings: ShareSettings, random: Random) -> None:
        self.active = ActiveMember()
        self.resume_at: int | None = None  # nothing is acquired before this time: holders of the former term may work
        self._share = share
        self._random = random
        self._claims: IntervalMap[Claim | None] = IntervalMap(None)
        self.availability = Availability(share, settings, self._claims)
        self._deadlines: list[tuple[int, int, int]] = []  # heap of (deadline, first, end); some are outdated
        self._held_count = 0
        self._window_end = share.start  # one more than the highest offset acquired in this term

    @property
    def settings(self) -> ShareSettings:
        return self.availability.settings

    @property
    def start(self) -> int:
        """The share's start: all records below it are finished."""
        return self._share.start

    @property
    def held_count(self) -> int:
        """The number of records that are currently acquired by consumers."""
        return self._held_count

    @property
    def lock_room(self) -> int:
        """The number of further records that consumers can acquire before the limit on locks is reached."""
        return self.settings.locks_max - self._held_count

    # Queries, which do not change anything.

    def held_by(self, member: str) -> Iterator[Acquired]:
        """Yield the records that a consumer holds, in ascending order."""
        for first, end, claim in self._claims:
            if isinstance(claim, Held) and claim.member == member:
                yield Acquired(first, end, claim.delivery_count)

    def within(self, first: int, end: int) -> Iterator[Interval[Claim | RecordStatus]]:
        """
        Yield the claims on the records between `first` and `end`, and the status of those without a claim, in the order
        of their offsets.  Begin at the share's start.
        """
        offset = max(first, self._share.start)
        while offset < end:
            claim = self._claims.at(offset, end)
            if claim.value is None:
                run = self._share.runs.at(offset, claim.end)
                yield Interval(run.first, run.end, run.value)
                offset = run.end
            else:
                yield Interval(claim.first, claim.end, claim.value)
                offset = claim.end

    def has_room_for(self, decided: Sequence[Run]) -> bool:
        """
        Return whether the share may track the runs that an operator's decisions add.  Each pending decision counts as a
        run.
        """
        growth = self._share.growth(decided)
        pending = sum(isinstance(claim.value, Decided) for claim in self._claims)
        return growth <= 0 or growth + pending <= self.availability.tracked_room

    def claims(self) -> Iterator[Interval[Claim]]:
        """Yield all claims, in ascending order."""
        for first, end, claim in self._claims:
            if claim is not None:
                yield Interval(first, end, claim)

    def configure(self, settings: ShareSettings) -> None:
        """Apply changed settings to later decisions."""
        if (settings.order, settings.mode) != (self.settings.order, self.settings.mode):
            self.active = ActiveMember()
        self.availability.configure(settings)

    # Methods that acquire records.

    def next_available(self, offset: int, end: int, wall: int) -> Interval[int] | None:
        """See `Availability.next`."""
        return self.availability.next(offset, end, wall)

    def takes_due(self, wall: int) -> bool:
        """See `Availability.takes_due`."""
        return self.availability.takes_due(wall)

    def admits(self, member: str) -> bool:
        """Return whether a consumer may acquire records now."""
        if self.resume_at is not None:
            return False
        if self.settings.mode is not Mode.EXCLUSIVE:
            return True
        consumer = consumer_of(member)
        is_held_by_others = any(
            isinstance(it.value, Held) and consumer_of(it.value.member) != consumer for it in self._claims
        )
        return self.active.admits(consumer) and not is_held_by_others

    def acquire(
        self,
        member: str,
        batches: Iterable[tuple[int, int]],
        *,
        records_max: int,
        batch_size: int,
        is_limit_strict: bool,
        now: int,
        wall: int,
        lock_ms: int | None = None,
    ) -> list[Acquired]:
        """
        Acquire the available records of `batches` (first offset, end offset; ascending) for a consumer.

        Without `is_limit_strict`, the batch in which `records_max` is reached is acquired as a whole (KIP-1206).  The
        limit on locks is always strict.  A record that has failed often is delivered with few others, together a
        fraction of `batch_size`, and finally alone, so that a record that crashes consumers does not use up the
        delivery attempts of its neighbours.
        """
        if not self.admits(member):
            return []
        look_ahead = self.availability.look_ahead
        if look_ahead is None:
            chosen = list(self._choose(batches, records_max, batch_size, is_limit_strict, wall))
        else:
            chosen = sorted(self._choose_preferred(batches, records_max, batch_size, wall))
        if chosen:
            self.active.acquired(consumer_of(member))
            if look_ahead is not None:
                look_ahead.acquired()
        acquired = [Acquired(one.first, one.end, one.value + 1) for one in joined(chosen)]
        self._hold(member, acquired, now, lock_ms)
        return acquired

    def renew(self, member: str, acquired: Sequence[Acquired], *, now: int, lock_ms: int | None = None) -> None:
        """
        Renew the locks on records that a consumer holds, in ascending order, or lock them again after a change of
        leaders.  `lock_ms` is the duration of the locks; None: the group's.
        """
        self._hold(member, acquired, now, lock_ms)

    def undo(self, acquired: Iterable[Acquired]) -> None:
        """Release acquired records whose response could not be sent, without counting a delivery."""
        for first, end, delivery_count in acquired:
            for held in list(self._claims.within(first, end)):
                if isinstance(held.value, Held) and held.value.delivery_count == delivery_count:
                    before = RecordStatus(RecordState.AVAILABLE, delivery_count - 1)
                    self._unhold(held, Decided(before, is_available=True))
                    self._forget_durable(held.first, held.end)

    # Methods that decide what happens to records.

    def check_type(self, kind: int) -> None:
        """Raise AcknowledgementRefused for a renewal, unless the group permits renewals."""
        if kind == Acknowledgement.RENEW and not self.settings.is_renewable:
            raise AcknowledgementRefused(
                errors.INVALID_RECORD_STATE,
                "share.renew.acknowledge.enable of the group is false: locks are not renewed; set it to true",
            )

    def acknowledge(
        self,
        member: str,
        ranges: Sequence[AcknowledgedRange],
        *,
        now: int,
        wall: int,
        delay_ms: int | None = None,
        lock_ms: int | None = None,
    ) -> list[Run]:
        """
        Return the decisions that follow from a consumer's acknowledgements.  `delay_ms` is the time until released
        records are available again; None: as the group's back-off says.  `lock_ms` is the duration of renewed locks;
        None: the group's.

        Offsets below the share's start count as acknowledged.  Raise AcknowledgementRefused before anything changes:
        with INVALID_REQUEST for offsets that were never acquired, and INVALID_RECORD_STATE if the consumer does not
        hold one of the records.
        """
        for acknowledged in ranges:
            self._check(acknowledged)
        settings = self.settings
        decided: list[Run] = []
        renewed: list[Acquired] = []
        current = ((max(first, self._share.start), end, kind) for first, end, kind in ranges)
        for first, end, held, kind in self._claims.meet(current):
            if not isinstance(held, Held) or held.member != member:
                raise AcknowledgementRefused(errors.INVALID_RECORD_STATE, f"{member} does not hold offset {first}")
            count = held.delivery_count
            if kind == Acknowledgement.RENEW:
                renewed.append(Acquired(first, end, count))
                continue
            is_delayed = kind in (Acknowledgement.GAP, Acknowledgement.RELEASE)
            release_at = self._release_time(held, wall, delay_ms) if is_delayed else 0
            decided.append(Interval(first, end, after_acknowledgement(kind, count, settings, release_at=release_at)))
        self._hold(member, renewed, now, lock_ms)
        self._decide(decided)
        return decided

    def acknowledge_lost(
        self, offset: int, delivery_count: int, kind: int, *, wall: int, delay_ms: int | None = None
    ) -> Run:
        """
        Return the decision that follows from an acknowledgement, other than a renewal, of a record that an earlier
        leader delivered and that is available again.
        """
        delivered = Held("", 0, delivery_count)
        release_at = self._release_time(delivered, wall, delay_ms) if kind == Acknowledgement.RELEASE else 0
        status = after_acknowledgement(kind, delivery_count, self.settings, release_at=release_at)
        return self.decide(offset, offset + 1, status)

    def decide(self, first: int, end: int, status: RecordStatus) -> Run:
        """Decide the status of records without a claim, for an operator, and return the decision."""
        self._claims.assign(first, end, Decided(status, is_available=False))
        self.availability.note_due(first, status.release_at)
        return Interval(first, end, status)

    def archive(self, first: int, end: int) -> list[Run]:
        """
        Archive the offsets from `first` up to `end` that are available, and return the decisions.  No consumer can use
        these offsets: they have control records, or records of an aborted transaction.
        """
        return self._archive(first, end, lambda count: RecordStatus(RecordState.ARCHIVED, count))

    def archive_expired(self, first: int, end: int) -> list[Run]:
        """
        End the records from `first` up to `end` that are available, because their time to live has passed, and return
        the decisions.
        """
        return self._archive(first, end, lambda count: after_expiry(count, self.settings))

    def expire(self, *, now: int, wall: int) -> list[Run]:
        """Release the records whose locks have expired, and return the decisions."""
        decided: list[Run] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, first, end = heapq.heappop(self._deadlines)
            for held in list(self._claims.within(first, end)):
                if isinstance(held.value, Held) and held.value.deadline <= now:
                    self.active.failed(consumer_of(held.value.member))
                    decided.append(self._return(held, held.value, self._back_off(held.value, wall)))
        return decided

    def next_deadline(self) -> int | None:
        """Return the earliest monotonic time, in ms, at which a lock may expire."""
        return self._deadlines[0][0] if self._deadlines else None

    def leave(self, member: str) -> list[Run]:
        """Release all records of a consumer whose session has ended, without a delay, and return the decisions."""
        self.active.failed(consumer_of(member))
        held = [claim for claim in self._claims if isinstance(claim.value, Held) and claim.value.member == member]
        return [self._return(one, one.value, 0) for one in held if isinstance(one.value, Held)]

    def committed(self, runs: Iterable[Run]) -> None:
        """Drop the claims that these decisions have replaced.  Call this when the share has applied the decisions."""
        runs = list(runs)
        replaced: list[Interval[Claim | None]] = [
            Interval(first, end, None)
            for first, end, claim, status in self._claims.meet(runs)
            if is_replaced_by(claim, status)
        ]
        for run in runs:
            self.availability.committed(run)
        self._claims.assign_all(replaced)
        self.start_moved()

    def start_moved(self) -> None:
        """
        Drop the claims on records below the share's start: the records are finished, or retention has removed them.
        """
        start = self._share.start
        self._held_count -= self._held_within(0, start)
        self._claims.drop_below(start)
        self.availability.start_moved()

    def resumes(self, now: int) -> bool:
        """Return whether the wait after a change of leaders is over; True only once."""
        if self.resume_at is None or now < self.resume_at:
            return False
        self.resume_at = None
        return True

    def replaces_silent(self, *, has_fetch: bool, end: int, now: int, wall: int) -> bool:
        """
        Return whether the active member of an exclusive share is replaced, because it is silent.  `has_fetch` is
        whether it has a waiting fetch; `end` is the high watermark.
        """
        is_idle = not (has_fetch or self._held_count) and self.next_available(self._share.start, end, wall) is not None
        return self.active.is_silent(is_idle=is_idle, now=now, patience_ms=self.settings.lock_ms)

    # Methods that the methods above share.

    def _archive(self, first: int, end: int, status_of: Callable[[int], RecordStatus]) -> list[Run]:
        """Decide about available offsets, also if they are delayed.  `status_of` takes the delivery count."""
        decided: list[Run] = []
        offset = max(first, self._share.start)
        while found := self.availability.find(offset, end, _NO_RELEASE_TIME):
            status = status_of(found.value)
            self._claims.assign(found.first, found.end, Decided(status, is_available=False))
            decided.append(Interval(found.first, found.end, status))
            offset = found.end
        return decided

    def _choose(
        self, batches: Iterable[tuple[int, int]], records_max: int, batch_size: int, is_limit_strict: bool, wall: int
    ) -> Iterator[Interval[int]]:
        """Yield the records to acquire.  An interval's value is the number of earlier deliveries."""
        room, taken = self.lock_room, 0
        for first, end in batches:
            if taken >= records_max:
                return
            for found in self.availability.available(first, end, wall):
                at_once = self.settings.records_at_once(found.value, batch_size)
                if at_once is not None and at_once <= taken:
                    if self.settings.order is Order.PARTITION:
                        return
                    continue  # a later fetch begins with these records
                room = room if at_once is None else min(room, at_once - taken)
                count = min(found.end - found.first, room, records_max - taken if is_limit_strict else room)
                if count <= 0:
                    return
                yield found._replace(end=found.first + count)
                room -= count
                taken += count
            if self.settings.order is Order.PARTITION and taken:
                return  # one batch at a time

    def _choose_preferred(
        self, batches: Iterable[tuple[int, int]], records_max: int, batch_size: int, wall: int
    ) -> Iterator[Interval[int]]:
        """
        Like `_choose`, but in the order in which records are to be acquired, up to the first that is not in `batches`.
        """
        present = IntervalMap(False)
        for first, end in batches:
            present.assign(first, end, True)
        room, taken = min(self.lock_room, records_max), 0
        for found in self.availability.preferred(wall):
            at_once = self.settings.records_at_once(found.value, batch_size)
            if at_once is not None and at_once <= taken:
                continue
            here = present.at(found.first, found.end)
            room = room if at_once is None else min(room, at_once - taken)
            count = min(here.end - here.first, room)
            if count <= 0 or not here.value:
                return
            yield found._replace(end=found.first + count)
            if here.end < found.end:
                return
            room -= count
            taken += count

    def _hold(self, member: str, acquired: Sequence[Acquired], now: int, lock_ms: int | None = None) -> None:
        """Lock records, in ascending order, for a consumer.  It may hold them already."""
        if not acquired:
            return
        deadline = now + (self.settings.lock_ms if lock_ms is None else lock_ms)
        first, end = acquired[0].first, acquired[-1].end
        self._held_count += sum(
            end - first for first, end, claim, _ in self._claims.meet(acquired) if not isinstance(claim, Held)
        )
        self._claims.assign_all(Interval(*one[:2], Held(member, deadline, one.delivery_count)) for one in acquired)
        heapq.heappush(self._deadlines, (deadline, first, end))
        self._window_end = max(self._window_end, end)

    def _held_within(self, first: int, end: int) -> int:
        return sum(one.end - one.first for one in self._claims.within(first, end) if isinstance(one.value, Held))

    def _unhold(self, held: Interval[Claim | None], claim: Claim) -> None:
        self._held_count -= held.end - held.first
        self._claims.assign(held.first, held.end, claim)
        self.availability.lower(held.first)

    def _decide(self, decided: Sequence[Run]) -> None:
        """Mark acquired records, in ascending order, as waiting for the commit of their new status."""
        self._held_count -= sum(run.end - run.first for run in decided)
        self._claims.assign_all(Interval(run.first, run.end, Decided(run.value, is_available=False)) for run in decided)
        for run in decided:
            self.availability.note_due(run.first, run.value.release_at)

    def _return(self, interval: Interval[Claim | None], held: Held, release_at: int) -> Run:
        """Release an interval that its consumer did not acknowledge; it is available immediately, unless it is dead."""
        status = after_failure(held.delivery_count, self.settings, release_at=release_at)
        if status.state != RecordState.AVAILABLE:
            run = Interval(interval.first, interval.end, status)
            self._decide([run])
            return run
        self._unhold(interval, Decided(status, is_available=True))
        self.availability.note_due(interval.first, status.release_at)
        return Interval(interval.first, interval.end, status)

    def _forget_durable(self, first: int, end: int) -> None:
        """Drop the claims of released records for which the share already has the same state and delivery count."""
        while first < end:
            run = self._share.runs.at(first, end)
            first = run.end
            for claim in list(self._claims.within(run.first, run.end)):
                if is_replaced_by(claim.value, run.value):
                    self._claims.assign(claim.first, claim.end, None)

    def _back_off(self, held: Held, wall: int) -> int:
        """
        Return the release time after a failed delivery, or 0 for immediate release.  A clock that has been set back
        shortens no delay: the delay begins at the latest time that was seen.
        """
        delay = self.settings.back_off.delay_ms(held.delivery_count, self._random)
        return self.availability.latest(wall) + delay if delay else 0

    def _release_time(self, held: Held, wall: int, delay_ms: int | None) -> int:
        """Return the release time that a consumer asks for, or by default that of the back-off."""
        if delay_ms is None:
            return self._back_off(held, wall)
        return self.availability.latest(wall) + delay_ms if delay_ms else 0

    def _check(self, acknowledged: AcknowledgedRange) -> None:
        """Check what can be checked without the claims."""
        _, end, kind = acknowledged
        if end <= self._share.start:
            return
        if end > self._window_end:
            raise AcknowledgementRefused(
                errors.INVALID_REQUEST, f"offset {end - 1} was never acquired: the last one is {self._window_end - 1}"
            )
        self.check_type(kind)
