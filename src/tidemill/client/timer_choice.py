"""Which records that wait in a timer topic are asked about, and how the answers of all partitions become one.

The same id may wait in any partition, because a key may belong to another partition after partitions were added.  So a
choice without partitions asks all of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Final, NamedTuple

from tidemill.model.topic import TopicId
from tidemill.peer import timer_list, timer_resolve
from tidemill.peer.timer_resolve import CANCEL, RESCHEDULE, SHIFT, UNBOUNDED, Selection

ARRIVAL_MAX: Final = (1 << 63) - 1
WaitingRecord = timer_list.Response.Record


class DueOrder(NamedTuple):
    """Where a record lies in the order of a list."""

    due_ms: int
    partition: int
    arrival: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerChoice:
    """The records that wait with all of these properties; without any, all records."""

    partition: int | None = None
    arrivals: Sequence[tuple[int, int]] = ()  # partitions and arrival numbers
    ids: Sequence[bytes] = ()
    key: bytes | None = None
    key_prefix: bytes | None = None
    due_from_ms: int | None = None
    due_before_ms: int | None = None
    is_recurring: bool = False  # only records with schedules

    @property
    def selection(self) -> Selection:
        return Selection(
            key=self.key,
            key_prefix=self.key_prefix,
            due_from_ms=_bound(self.due_from_ms),
            due_before_ms=_bound(self.due_before_ms),
            is_recurring=self.is_recurring,
        )

    @property
    def is_selection(self) -> bool:
        """Whether keys or due times restrict the choice."""
        return self.selection != Selection()

    def partitions(self, known: Iterable[int]) -> list[int]:
        """Return the partitions to ask, of those that the topic has."""
        if self.partition is not None:
            return [self.partition]
        if self.arrivals:
            return sorted({partition for partition, _ in self.arrivals} & set(known))
        return [*known]

    def arrivals_in(self, partition: int) -> list[int]:
        return sorted({arrival for number, arrival in self.arrivals if number == partition})


def _bound(due_ms: int | None) -> int:
    """Return a bound of a selection.  Nothing is due before 1970, and a negative number is no bound."""
    return UNBOUNDED if due_ms is None else max(due_ms, 0)


class Change(NamedTuple):
    """What becomes of the chosen records."""

    operation: int = CANCEL
    ms: int = UNBOUNDED  # the time since the epoch, or how much later
    is_delay: bool = False  # `ms` counts from now, by the release clock of each partition

    def at(self, limit_ms: int) -> "Change":
        """Return a change without a delay, for a partition whose release clock says `limit_ms`."""
        return Change(self.operation, limit_ms + self.ms) if self.is_delay else self

    @property
    def is_repeatable(self) -> bool:
        """
        Whether the change may be asked for again after its response was lost.  A shift moves the records again, so it
        is tried in all partitions first: what one of them refuses moves nothing in the others.
        """
        return self.operation != SHIFT


CANCELLED: Final = Change()


def due_at(ms: int) -> Change:
    return Change(RESCHEDULE, ms)


def delayed_by(ms: int) -> Change:
    return Change(RESCHEDULE, ms, is_delay=True)


def shifted_by(ms: int) -> Change:
    return Change(SHIFT, ms)


class Outcome(NamedTuple):
    """What has become of the chosen records."""

    changed: int = 0  # cancelled or rescheduled; in a trial, those that would be
    over: int = 0  # named by arrival: released, cancelled or replaced before
    unknown: int = 0  # arrivals that do not exist, and ids with which nothing waits


def resolve_request(
    topic_id: TopicId, partition: int, choice: TimerChoice, change: Change, *, is_trial: bool
) -> timer_resolve.Request:
    arrivals = choice.arrivals_in(partition)
    is_named = bool(arrivals or choice.ids)
    return timer_resolve.Request(
        topic_id=topic_id,
        partition=partition,
        operation=change.operation,
        due_ms=change.ms,
        arrivals=arrivals,
        timer_ids=[*dict.fromkeys(choice.ids)],
        selection=None if is_named and not choice.is_selection else choice.selection,
        is_trial=is_trial,
    )


def outcome_of(responses: Iterable[timer_resolve.Response], choice: TimerChoice, asked: Sequence[int]) -> Outcome:
    """Add the responses of the partitions `asked`."""
    changed = over = unknown = 0
    for response in responses:
        changed, over, unknown = changed + response.changed, over + response.over, unknown + response.unknown
    if choice.ids:
        unknown = max(len(set(choice.ids)) - changed, 0)  # each partition counts the ids that wait in another one
    elsewhere = {it for it in choice.arrivals if it[0] not in asked}
    return Outcome(changed, over, unknown + len(elsewhere))


def list_request(
    topic_id: TopicId,
    partition: int,
    choice: TimerChoice,
    *,
    count_max: int = 0,
    after: DueOrder | None = None,
    has_values: bool = False,
    edges_ms: Sequence[int] = (),
) -> timer_list.Request:
    """Return a request for records behind `after` in the order of a list."""
    after_arrival = UNBOUNDED
    if after is not None and partition <= after.partition:
        after_arrival = after.arrival if partition == after.partition else ARRIVAL_MAX
    return timer_list.Request(
        topic_id=topic_id,
        partition=partition,
        selection=choice.selection if choice.is_selection else None,
        timer_ids=choice.ids,
        after_due_ms=UNBOUNDED if after is None else after.due_ms,
        after_arrival=after_arrival,
        max_records=count_max,
        has_values=has_values,
        edges_ms=edges_ms,
    )


class Listed(NamedTuple):
    """A record that waits."""

    order: DueOrder
    record: WaitingRecord


class Page(NamedTuple):
    """Records of a list, in order of due time, partition and arrival."""

    records: Sequence[Listed]
    has_more: bool

    @property
    def next(self) -> DueOrder | None:
        """Behind which record the next page begins; None after the last page."""
        return self.records[-1].order if self.has_more else None


def page_of(partition: int, response: timer_list.Response) -> Page:
    records = [Listed(DueOrder(it.due_ms, partition, it.arrival), it) for it in response.records]
    return Page(records, response.has_more)


def merged(pages: Sequence[Page], count_max: int) -> Page:
    """
    Return the first records of several lists.  They end where a list that has more ends, because what it has next may
    come before the records of other lists.
    """
    ends = [page.records[-1].order for page in pages if page.has_more]
    end = min(ends, default=None)
    found: list[Listed] = []
    for it in merge(*(page.records for page in pages), key=lambda it: it.order):
        if len(found) == count_max or (end is not None and it.order > end):
            return Page(found, has_more=True)
        found.append(it)
    return Page(found, has_more=bool(ends))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTimers:
    """How much waits in a partition."""

    partition: int
    waiting: int
    waiting_bytes: int  # about
    next_due_ms: int | None  # None: nothing waits, or a new leader has not read it yet
    limit_ms: int | None  # the time by the release clock; None while it is not known


def timers_of(partition: int, response: timer_list.Response) -> PartitionTimers:
    return PartitionTimers(
        partition=partition,
        waiting=response.waiting,
        waiting_bytes=response.waiting_bytes,
        next_due_ms=None if response.next_due_ms == UNBOUNDED else response.next_due_ms,
        limit_ms=None if response.limit_ms == UNBOUNDED else response.limit_ms,
    )
