"""TimerResolve and TimerList on the leader of a partition.

resolve   records named ─▶ decisions, of at most 10,000 records each ─▶ committed ─▶ what became of them
          records selected ─▶ a scan on another thread names the next 10,000 ─▶ as above ─▶ the scan goes on
             └─▶ schedules that have gone on since the scan began ─▶ a scan of these ─▶ as above
list      leadership is confirmed ─▶ a scan on another thread ─▶ records, in the order in which they are due
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple, TypeVar

from tidemill.broker.timers.timer_host import TimerHost
from tidemill.broker.timers.waiting_scan import LIST_BYTES_MAX, NOTHING_SELECTED, WaitingRecord, WaitingScan, first_due
from tidemill.model import errors
from tidemill.model.errors import KafkaError
from tidemill.peer import timer_list, timer_resolve
from tidemill.peer.timer_resolve import CANCEL, RESCHEDULE, SHIFT, UNBOUNDED
from tidemill.shard.arrivals import waiting_bytes
from tidemill.shard.pending import Pending
from tidemill.timer.due_time import DUE_MS_MAX, UNLIMITED
from tidemill.timer.schedule import LATE_MS_MAX, BadSchedule, parse_schedule
from tidemill.timer.timer_command import Cancel, CancelIds, Decision, Reschedule, RescheduleIds
from tidemill.timer.timer_headers import hash_of
from tidemill.timer.waiting_set import Outcome

ITEMS_MAX: Final = 10_000  # of one decision, so that no row takes long to apply
RECORDS_MAX: Final = 1_000  # of one list
EDGES_MAX: Final = 1_000
AGAIN_MAX: Final = 500  # schedules that are read again together, in less time than they take to go on
AGAIN_MS_MAX: Final = 20_000  # for which a request reads schedules again
NOT_FOUND: Final = -1, -1  # in place of a due time and an arrival
T = TypeVar("T")

LOST: Final = (
    errors.NOT_LEADER_OR_FOLLOWER,
    "this broker no longer leads the partition: what became of the records is unknown; asking again is harmless",
)
OUTDATED: Final = (
    errors.REQUEST_TIMED_OUT,
    f"schedules have gone on while they were read, again and again for {AGAIN_MS_MAX // 1_000} s, and some of them "
    "were not changed; ask again when the broker has less to do",
)
SHIFT_LOST: Final = (
    errors.REQUEST_TIMED_OUT,
    "the shift has ended early: some of the records may have been moved, and the same request would move them again; "
    "list the records, and shift those that were not moved",
)


class TimerResolution(Pending[timer_resolve.Response]):
    """Completes with the response to a TimerResolve."""

    def __init__(self, host: TimerHost, request: timer_resolve.Request) -> None:
        super().__init__()
        self._request = request
        self._outcome = Outcome()
        self._host = host
        self._arrivals = [*dict.fromkeys(request.arrivals)]  # some may be named twice
        self._ids = [*dict.fromkeys(request.timer_ids)]
        self._latest_ms = DUE_MS_MAX  # at which a record may be due
        self._now_ms = 0
        self._decisions: Iterator[Decision] = iter(())
        self._has_decided = False  # whether a decision was proposed, which may be committed whatever happens
        self._selected: _Selected | None = None  # what a scan finds
        self._outdated: list[int] = []  # arrivals that were found, and whose schedules have gone on since
        self._ends_at = host.monotonic_ms() + AGAIN_MS_MAX  # from then on, these are not read again
        try:
            self._led = host.served(request.topic_id, request.partition)
            self._now_ms = self._led.partition.shard.append_time(0)  # without the clock of this broker alone
            self._check()
        except KafkaError as refused:
            self._refuse(refused.error_code, refused.message)
            return
        self._reads_names = request.selection is None and (request.operation == SHIFT or self._may_be_refused)
        if request.selection is None and not self._reads_names:
            self._decide_named()
            return
        scan = self._scan(self._ids)
        if self._reads_names:
            self._in_thread(lambda: dict(self._found_by(scan)), lambda found: self._named(scan, found))
        elif request.is_trial or self._is_delaying or self._may_be_refused:
            self._in_thread(lambda: self._measured(scan), lambda found: self._select(scan, found))
        else:
            self._select(scan, _Measured())

    def _scan(self, timer_ids: Collection[bytes] = (), arrivals: Collection[int] | None = None) -> WaitingScan:
        """Return a scan of what waits, with schedules as far as the log says: decisions come behind what is there."""
        scan = self._led.scan(timer_ids, arrivals)
        return scan._replace(view=scan.view._replace(recurring=dict(self._led.timers.recurrences())))

    def _in_thread(self, job: Callable[[], T], then: Callable[[T], None]) -> None:
        """
        Run a job that reads what waits, then go on, if this broker still leads.  Refuse the request if either raises
        KafkaError.
        """

        def done(found: T | KafkaError) -> None:
            try:
                if isinstance(found, KafkaError):
                    raise found
                if self._led.is_stopped:
                    raise KafkaError(*LOST)
                then(found)
            except KafkaError as refused:
                self._refuse(refused.error_code, refused.message)

        self._host.in_thread(job, done)

    @property
    def _is_delaying(self) -> bool:
        """Whether records are moved by a time that may be more than the topic allows."""
        return self._request.operation == SHIFT and self._request.due_ms > 0

    @property
    def _is_advancing(self) -> bool:
        """Whether records may be moved so far into the past that what this means depends on their schedules."""
        request = self._request
        if request.operation == SHIFT:
            return request.due_ms < 0
        return request.operation == RESCHEDULE and request.due_ms < self._now_ms - LATE_MS_MAX

    @property
    def _may_be_refused(self) -> bool:
        """
        Whether a schedule may forbid the change, so that the records are read before any of them is moved.

        What waits with an id may be replaced by a record that recurs before the change is committed.
        """
        recurring = self._led.timers.waiting.recurring
        is_named = any(map(recurring.__contains__, self._arrivals)) or bool(self._ids)
        return self._is_advancing and (is_named or (self._request.selection is not None and bool(recurring)))

    def _moved(self, found: WaitingRecord) -> int:
        """
        Return when a record is due once it is moved as the request says.  If that is before 1970, it is due at 0, or at
        the first occurrence from 1970 on of a schedule that begins then.  Raise KafkaError if it recurs in such a way
        that it must not be moved.
        """
        request = self._request
        moment_ms = found.due_ms + request.due_ms if request.operation == SHIFT else request.due_ms
        if not self._is_advancing or moment_ms >= max(found.due_ms, 0):
            return moment_ms
        due_ms = max(moment_ms, 0)
        try:
            schedule = parse_schedule(found.record.headers)
            if schedule is not None:
                due_ms = (schedule.first(moment_ms) or 0) if moment_ms < 0 else moment_ms
                schedule.check_move(due_ms, self._now_ms)
        except BadSchedule as problem:
            raise KafkaError(errors.INVALID_REQUEST, f"arrival {found.arrival}: {problem}") from problem
        return due_ms

    def _found_by(self, scan: WaitingScan) -> Iterator[tuple[int, int]]:
        """
        Yield arrivals that a scan finds, and when they are due after the change.  Waits for the disk.  Raise KafkaError
        if one of them must not be moved.
        """
        request = self._request
        # A scan of named records goes on with all that wait if some were moved meanwhile.
        wanted = {it.arrival for it in scan.only or ()} or {*self._arrivals}
        for it in scan.records(request.selection or NOTHING_SELECTED, {*self._ids}):
            if not wanted or it.arrival in wanted:
                if request.operation == SHIFT and not it.has_time:
                    raise KafkaError(
                        errors.INVALID_REQUEST,
                        f"arrival {it.arrival}: its next occurrence, from which it would be shifted, is not known: "
                        "install the newest version of tzdata for all brokers, or say the new time",
                    )
                yield it.arrival, it.due_ms if request.operation == CANCEL else self._moved(it)

    def _measured(self, scan: WaitingScan) -> "_Measured":
        """Count what a scan finds.  Waits for the disk."""
        count, last = 0, NOT_FOUND
        for arrival, due in self._found_by(scan):
            count += 1
            last = max(last, (due, arrival))
        return _Measured(count, last)

    def _check(self) -> None:
        request, config = self._request, self._led.partition.config
        if request.operation not in (CANCEL, RESCHEDULE, SHIFT):
            raise KafkaError(errors.INVALID_REQUEST, f"operation {request.operation}: use 0, 1 or 2")
        if not (request.arrivals or request.timer_ids or request.selection is not None):
            raise KafkaError(errors.INVALID_REQUEST, "no records are named: give arrivals, ids or a selection")
        if request.arrivals and request.timer_ids:
            raise KafkaError(errors.INVALID_REQUEST, "arrivals and ids are both there: send two requests")
        if request.operation == RESCHEDULE or self._is_delaying:
            limit = self._led.partition.shard.release_limit
            if config.max_delay_ms != UNLIMITED:
                if limit is None:
                    raise KafkaError(
                        errors.NOT_ENOUGH_REPLICAS,
                        "too few brokers of the partition are heard to know the time; retry, and check the brokers of "
                        "its replicas",
                    )
                self._latest_ms = min(DUE_MS_MAX, limit + config.max_delay_ms)
            if request.operation == RESCHEDULE and request.due_ms > self._latest_ms:
                raise KafkaError(
                    errors.INVALID_REQUEST,
                    f"the new time {request.due_ms} ms since the epoch is later than {self._allowed} allows: use at "
                    f"most {self._latest_ms}",
                )

    @property
    def _allowed(self) -> str:
        """What bounds the time of a record, as messages say it."""
        delay_ms = self._led.partition.config.max_delay_ms
        return "the year 9999" if delay_ms == UNLIMITED else f"tidemill.max.delay.ms={delay_ms}"

    def _check_shift(self, last: tuple[int, int]) -> None:
        """Refuse a shift by the new due time and the arrival of the record that is due last."""
        due, arrival = last
        if self._is_delaying and due > self._latest_ms:
            raise KafkaError(
                errors.INVALID_REQUEST,
                f"arrival {arrival} would be due at {due} ms since the epoch, later than {self._allowed} allows: "
                "shift by less, or choose other records",
            )

    def _decide_named(self) -> None:
        request, topic_id = self._request, self._led.partition.log.topic_id
        number = request.partition
        hashes = [hash_of(it, topic_id) for it in self._ids]
        if request.is_trial:
            waiting = self._led.timers.waiting
            known = [it for it in map(waiting.arrival_of, hashes) if it is not None]
            changed = len(known) + sum(map(waiting.waits, self._arrivals))
            over = sum(not waiting.waits(it) and 0 <= it < waiting.end for it in self._arrivals)
            named = len(hashes) + len(self._arrivals)
            self._outcome = Outcome(changed, over, named - changed - over)
            self._confirm()
            return
        is_cancel, due = request.operation == CANCEL, max(request.due_ms, 0)
        of_arrivals = (
            Cancel(number, it) if is_cancel else Reschedule(number, dict.fromkeys(it, due))
            for it in _chunks(self._arrivals)
        )
        of_ids = (
            CancelIds(number, it) if is_cancel else RescheduleIds(number, dict.fromkeys(it, due))
            for it in _chunks(hashes)
        )
        self._decisions = chain(of_arrivals, of_ids)
        self._decide_next()

    def _named(self, scan: WaitingScan, found: Mapping[int, int]) -> None:
        """Decide about the records that a scan has found, of those that were named, with their new due times."""
        self._check_shift(max(((due, it) for it, due in found.items()), default=NOT_FOUND))
        if self._request.is_trial:
            self._outcome = Outcome(changed=len(found))
            self._confirm()
            return
        self._decisions = self._decisions_about(scan, [*found.items()])
        self._decide_next()

    def _select(self, scan: WaitingScan, found: "_Measured") -> None:
        """Decide about the records of a selection, of which `found` says how many there are if that is asked for."""
        self._check_shift(found.last)
        if self._request.is_trial:
            self._outcome = Outcome(changed=found.records)
            self._confirm()
            return
        self._selected = _Selected(scan, self._found_by(scan))
        self._decide_next()

    def _were_selected(self, scan: WaitingScan, found: Sequence[tuple[int, int]]) -> None:
        self._check_shift(max(((due, it) for it, due in found), default=NOT_FOUND))
        if found:
            self._decisions = self._decisions_about(scan, found)
        else:
            self._selected = None
        self._decide_next()

    def _decisions_about(self, scan: WaitingScan, found: Sequence[tuple[int, int]]) -> Iterator[Decision]:
        """
        Yield decisions about arrivals with these new due times, each when it is proposed.

        If the change depends on when they are due, schedules that have gone on since the scan began are left for
        another one: for an occurrence that is released meanwhile, the request has come too late.
        """
        is_cancel, number = self._request.operation == CANCEL, self._request.partition
        for chunk in _chunks(found):
            before, now = scan.view.recurring, self._led.timers.recurrences()
            dues = {it: due for it, due in chunk if not self._depends_on_due or before.get(it) == now.get(it)}
            self._outdated += [it for it, _ in chunk if it not in dues]
            if dues:
                yield Cancel(number, [*dues]) if is_cancel else Reschedule(number, dues)

    @property
    def _depends_on_due(self) -> bool:
        """Whether it matters for what a record waits now."""
        if self._request.operation == SHIFT:
            return True
        chosen = self._request.selection or NOTHING_SELECTED
        return chosen.due_from_ms != UNBOUNDED or chosen.due_before_ms != UNBOUNDED

    def _with_missing(self, outcome: Outcome) -> Outcome:
        """Return the outcome of a request that names records, of which a scan has found only those that wait."""
        changed, over, _ = outcome
        if self._ids:
            return Outcome(changed, over, len(self._ids) - changed - over)
        end = self._led.timers.waiting.end
        unknown = sum(not 0 <= it < end for it in self._arrivals)
        return Outcome(changed, len(self._arrivals) - changed - unknown, unknown)

    def _decide_next(self) -> None:
        decision = next(self._decisions, None)
        if decision is None and self._selected is None and self._outdated:
            if self._host.monotonic_ms() > self._ends_at:
                self._refuse(*OUTDATED)
                return
            again, self._outdated = self._outdated[:AGAIN_MAX], self._outdated[AGAIN_MAX:]
            scan = self._scan(arrivals=again)
            self._selected = _Selected(scan, self._found_by(scan))
        selected = self._selected
        if decision is not None:
            self._has_decided = True
            self._led.decide(decision, self._decided)
        elif selected is not None:
            self._in_thread(
                lambda: [*islice(selected.found, ITEMS_MAX)], lambda found: self._were_selected(selected.scan, found)
            )
        else:
            self._confirm()

    def _decided(self, outcome: Outcome | None) -> None:
        if outcome is None:
            self._refuse(*LOST)
            return
        self._outcome = Outcome(*map(sum, zip(self._outcome, outcome, strict=True)))
        self._decide_next()

    def _confirm(self) -> None:
        """
        Answer; a request that has changed nothing must be sure that this broker still leads.  The releases in the log,
        by which schedules have gone on, must have been committed.
        """
        changed, over, unknown = self._with_missing(self._outcome) if self._reads_names else self._outcome
        shard, timers = self._led.partition.shard, self._led.timers

        def answer(is_true: bool) -> None:
            if is_true:
                self.complete(timer_resolve.Response(changed=changed, over=over, unknown=unknown))
            else:
                self._refuse(*LOST)

        if timers.waiting.recurring and timers.last_release is not None:
            confirm = shard.confirm_leadership
            shard.when_committed(timers.last_release, lambda is_true: confirm(answer) if is_true else answer(False))
        else:
            shard.confirm_leadership(answer)

    def _refuse(self, code: int, message: str | None) -> None:
        if self._has_decided and self._request.operation == SHIFT:  # every other request may be repeated
            code, message = SHIFT_LOST
        self.complete(timer_resolve.Response(error_code=code, error_message=message))


class _Selected(NamedTuple):
    scan: WaitingScan
    found: Iterator[tuple[int, int]]  # arrivals, new due times


class _Measured(NamedTuple):
    """What a scan has found."""

    records: int = 0
    last: tuple[int, int] = NOT_FOUND  # the new due time and the arrival of the record that is due last


class _Listed(NamedTuple):
    records: list[WaitingRecord]
    has_more: bool
    counts: list[int]


class TimerListing(Pending[timer_list.Response]):
    """Completes with the response to a TimerList."""

    def __init__(self, host: TimerHost, request: timer_list.Request) -> None:
        super().__init__()
        self._request = request
        self._host = host
        try:
            self._led = host.served(request.topic_id, request.partition)
            _check_list(request)
        except KafkaError as refused:
            self._refuse(refused)
            return
        self._led.partition.shard.confirm_leadership(self._confirmed)

    def _confirmed(self, leads: bool) -> None:
        if not leads:
            self._refuse(KafkaError(*LOST))
            return
        request, scan = self._request, self._led.scan({*self._request.timer_ids}, has_values=self._request.has_values)
        edges, after = [*request.edges_ms], (request.after_due_ms, request.after_arrival)

        selection, ids = request.selection or NOTHING_SELECTED, {*request.timer_ids}
        count = min(request.max_records, RECORDS_MAX)
        memory = self._host.memory  # of the responses of all clients: while it is short, lists are, too
        bytes_max = min(LIST_BYTES_MAX, memory.response_room()) if count else 0

        def listed() -> _Listed:
            if request.is_by_arrival:
                return _Listed(*scan.first_arrived(selection, ids, request.after_arrival, count, bytes_max), [])
            counts = [0] * (len(edges) + 1) if edges else []

            def counted() -> Iterator[WaitingRecord]:
                for it in scan.records(selection, ids):
                    if edges:
                        counts[bisect_right(edges, it.due_ms)] += 1
                    yield it

            return _Listed(*first_due(counted(), after, count, bytes_max), counts)

        def done(found: _Listed | KafkaError) -> None:
            memory.end_read(bytes_max)
            self._listed(found)

        if request.max_records or edges:
            memory.begin_read(bytes_max)
            self._host.in_thread(listed, done)
        else:
            self._listed(_Listed([], False, []))

    def _listed(self, found: _Listed | KafkaError) -> None:
        if isinstance(found, KafkaError):
            self._refuse(found)
            return
        partition, waiting = self._led.partition, self._led.timers.waiting
        next_due, limit = self._led.timers.index.known_due, partition.shard.release_limit
        records = [*map(_record, found.records)]
        self.complete(
            timer_list.Response(
                waiting=waiting.count,
                waiting_bytes=waiting_bytes(partition),
                next_due_ms=UNBOUNDED if next_due is None else next_due,
                end=waiting.end,
                limit_ms=UNBOUNDED if limit is None else limit,
                records=records,
                has_more=found.has_more,
                counts=found.counts,
            )
        )

    def _refuse(self, refused: KafkaError) -> None:
        self.complete(timer_list.Response(error_code=refused.error_code, error_message=refused.message))


def _check_list(request: timer_list.Request) -> None:
    if request.max_records < 0:
        raise KafkaError(errors.INVALID_REQUEST, f"max_records {request.max_records}: use 0 to {RECORDS_MAX}")
    edges = [*request.edges_ms]
    if len(edges) > EDGES_MAX or edges != sorted(edges):
        raise KafkaError(errors.INVALID_REQUEST, f"{len(edges)} edges: use up to {EDGES_MAX}, ascending")


def _record(it: WaitingRecord) -> timer_list.Response.Record:
    record = it.record
    return timer_list.Response.Record(
        arrival=it.arrival,
        due_ms=it.due_ms,
        timestamp_ms=record.timestamp,
        size_bytes=it.size_bytes,
        timer_id=it.timer_id,
        key=record.key,
        value=record.value,
        headers=[timer_list.Response.Record.Header(name=name, value=value) for name, value in record.headers],
    )


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[at : at + ITEMS_MAX] for at in range(0, len(items), ITEMS_MAX))
