"""TimerResolve and TimerList on the leader of a partition.

resolve   records named ─▶ decisions, of at most 10,000 records each ─▶ committed ─▶ what became of them
          records selected ─▶ a scan on another thread names them ─▶ as above
list      leadership is confirmed ─▶ a scan on another thread ─▶ records, in the order in which they are due
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from tidemill.broker.timers.timer_host import TimerHost
from tidemill.broker.timers.waiting_scan import NOTHING_SELECTED, WaitingRecord, first_due
from tidemill.model import errors
from tidemill.model.errors import KafkaError
from tidemill.peer import timer_list, timer_resolve
from tidemill.peer.timer_resolve import CANCEL, RESCHEDULE, SHIFT, UNBOUNDED
from tidemill.shard.arrivals import waiting_bytes
from tidemill.shard.pending import Pending
from tidemill.timer.due_time import DUE_MS_MAX, UNLIMITED
from tidemill.timer.timer_command import Cancel, CancelIds, Decision, Reschedule, RescheduleIds
from tidemill.timer.timer_headers import hash_of
from tidemill.timer.waiting_set import Outcome

ITEMS_MAX: Final = 10_000  # of one decision, so that no row takes long to apply
RECORDS_MAX: Final = 1_000  # of one list
BYTES_MAX: Final = 4 << 20  # of the records of one list
EDGES_MAX: Final = 1_000
T = TypeVar("T")

LOST: Final = (
    errors.NOT_LEADER_OR_FOLLOWER,
    "this broker no longer leads the partition: what became of the records is unknown; asking again is harmless",
)


class TimerResolution(Pending[timer_resolve.Response]):
    """Completes with the response to a TimerResolve."""

    def __init__(self, host: TimerHost, request: timer_resolve.Request) -> None:
        super().__init__()
        self._request = request
        self._outcome = Outcome()
        self._decisions: deque[Decision] = deque()
        try:
            self._led = host.served(request.topic_id, request.partition)
            self._check()
        except KafkaError as refused:
            self._refuse(refused.error_code, refused.message)
            return
        if request.selection is None and request.operation != SHIFT:
            self._decide_named()
            return
        scan, wanted = self._led.scan({*request.timer_ids}), {*request.arrivals}
        ids = {*request.timer_ids}

        def named() -> dict[int, int]:
            found = scan.records(request.selection or NOTHING_SELECTED, ids)
            return {it.arrival: it.due_ms for it in found if not wanted or it.arrival in wanted}

        host.in_thread(named, self._named)

    def _check(self) -> None:
        request, config = self._request, self._led.partition.config
        if request.operation not in (CANCEL, RESCHEDULE, SHIFT):
            raise KafkaError(errors.INVALID_REQUEST, f"operation {request.operation}: use 0, 1 or 2")
        if not (request.arrivals or request.timer_ids or request.selection is not None):
            raise KafkaError(errors.INVALID_REQUEST, "no records are named: give arrivals, ids or a selection")
        if request.arrivals and request.timer_ids:
            raise KafkaError(errors.INVALID_REQUEST, "arrivals and ids are both there: send two requests")
        if request.operation == RESCHEDULE:
            latest, limit = DUE_MS_MAX, self._led.partition.shard.release_limit
            if config.max_delay_ms != UNLIMITED:
                if limit is None:
                    raise KafkaError(
                        errors.NOT_ENOUGH_REPLICAS,
                        "too few brokers of the partition are heard to know the time; retry, and check the brokers of "
                        "its replicas",
                    )
                latest = limit + config.max_delay_ms
            if not 0 <= request.due_ms <= latest:
                raise KafkaError(
                    errors.INVALID_REQUEST,
                    f"the new time {request.due_ms} is not within 0 and {latest} ms since the epoch",
                )

    def _decide_named(self) -> None:
        request, topic_id = self._request, self._led.partition.log.topic_id
        number = request.partition
        hashes = [hash_of(it, topic_id) for it in request.timer_ids]
        if request.is_trial:
            waiting = self._led.timers.waiting
            known = [it for it in map(waiting.arrival_of, hashes) if it is not None]
            changed = len(known) + sum(map(waiting.waits, request.arrivals))
            over = sum(not waiting.waits(it) and 0 <= it < waiting.end for it in request.arrivals)
            named = len(hashes) + len(request.arrivals)
            self._outcome = Outcome(changed, over, named - changed - over)
            self._confirm()
            return
        for arrivals in _chunks(request.arrivals):
            self._decisions.append(
                Cancel(number, arrivals)
                if request.operation == CANCEL
                else Reschedule(number, dict.fromkeys(arrivals, request.due_ms))
            )
        for ids in _chunks(hashes):
            self._decisions.append(
                CancelIds(number, ids)
                if request.operation == CANCEL
                else RescheduleIds(number, dict.fromkeys(ids, request.due_ms))
            )
        self._decide_next()

    def _named(self, found: Mapping[int, int] | KafkaError) -> None:
        """Decide about the records that a scan has found, with their due times."""
        request = self._request
        if isinstance(found, KafkaError):
            self._refuse(found.error_code, found.message)
            return
        self._outcome = self._missed(found)
        if request.is_trial:
            self._outcome = self._outcome._replace(changed=len(found))
            self._confirm()
            return
        for arrivals in _chunks([*found]):
            if request.operation == CANCEL:
                self._decisions.append(Cancel(request.partition, arrivals))
                continue
            dues = {
                it: request.due_ms if request.operation == RESCHEDULE else _shifted(found[it], request.due_ms)
                for it in arrivals
            }
            self._decisions.append(Reschedule(request.partition, dues))
        self._decide_next()

    def _missed(self, found: Collection[int]) -> Outcome:
        """Count what was named and does not wait.  A selection leaves out what waits, too, so it misses nothing."""
        request, end = self._request, self._led.timers.waiting.end
        if request.selection is not None:
            return Outcome()
        missing = set(request.arrivals).difference(found)
        over = sum(0 <= it < end for it in missing)
        ids = len({*request.timer_ids}) - len(found) if request.timer_ids else 0
        return Outcome(0, over, len(missing) - over + ids)

    def _decide_next(self) -> None:
        if self._decisions:
            self._led.decide(self._decisions.popleft(), self._decided)
        else:
            self._confirm()

    def _decided(self, outcome: Outcome | None) -> None:
        if outcome is None:
            self._refuse(*LOST)
            return
        self._outcome = Outcome(*map(sum, zip(self._outcome, outcome, strict=True)))
        self._decide_next()

    def _confirm(self) -> None:
        """Answer; a request that has changed nothing must be sure that this broker still leads."""
        changed, over, unknown = self._outcome
        self._led.partition.shard.confirm_leadership(
            lambda leads: (
                self.complete(timer_resolve.Response(changed=changed, over=over, unknown=unknown))
                if leads
                else self._refuse(*LOST)
            )
        )

    def _refuse(self, code: int, message: str | None) -> None:
        self.complete(timer_resolve.Response(error_code=code, error_message=message))


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
        request, scan = self._request, self._led.scan({*self._request.timer_ids})
        edges, after = [*request.edges_ms], (request.after_due_ms, request.after_arrival)

        selection, ids = request.selection or NOTHING_SELECTED, {*request.timer_ids}
        count = min(request.max_records, RECORDS_MAX)

        def listed() -> _Listed:
            if request.is_by_arrival:
                return _Listed(*scan.first_arrived(selection, ids, request.after_arrival, count), [])
            counts = [0] * (len(edges) + 1) if edges else []

            def counted() -> Iterator[WaitingRecord]:
                for it in scan.records(selection, ids):
                    if edges:
                        counts[bisect_right(edges, it.due_ms)] += 1
                    yield it

            return _Listed(*first_due(counted(), after, count), counts)

        if request.max_records or edges:
            self._host.in_thread(listed, self._listed)
        else:
            self._listed(_Listed([], False, []))

    def _listed(self, found: _Listed | KafkaError) -> None:
        if isinstance(found, KafkaError):
            self._refuse(found)
            return
        partition, waiting = self._led.partition, self._led.timers.waiting
        next_due, limit = self._led.timers.index.next_due(), partition.shard.release_limit
        records = [_record(it, has_value=self._request.has_values) for it in _bounded(found.records)]
        self.complete(
            timer_list.Response(
                waiting=waiting.count,
                waiting_bytes=waiting_bytes(partition),
                next_due_ms=UNBOUNDED if next_due is None else next_due,
                end=waiting.end,
                limit_ms=UNBOUNDED if limit is None else limit,
                records=records,
                has_more=found.has_more or len(records) < len(found.records),
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


def _bounded(records: Sequence[WaitingRecord]) -> list[WaitingRecord]:
    """Return the first records that fit into a response, at least one."""
    found: list[WaitingRecord] = []
    size = 0
    for it in records:
        size += it.size_bytes
        if found and size > BYTES_MAX:
            break
        found.append(it)
    return found


def _record(it: WaitingRecord, *, has_value: bool) -> timer_list.Response.Record:
    record = it.record
    return timer_list.Response.Record(
        arrival=it.arrival,
        due_ms=it.due_ms,
        timestamp_ms=record.timestamp,
        size_bytes=it.size_bytes,
        timer_id=it.timer_id,
        key=record.key,
        value=record.value if has_value else None,
        headers=[timer_list.Response.Record.Header(name=name, value=value) for name, value in record.headers],
    )


def _shifted(due_ms: int, by_ms: int) -> int:
    return min(max(due_ms + by_ms, 0), DUE_MS_MAX)


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[at : at + ITEMS_MAX] for at in range(0, len(items), ITEMS_MAX))
