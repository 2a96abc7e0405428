"""The parameters, bodies and responses of `/v1/topics/{topic}/timers`."""

import re
from itertools import pairwise
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tidemill.client.timer_choice import Change, DueOrder, Listed, TimerChoice, delayed_by, due_at, shifted_by
from tidemill.http.v1.calls import Refused
from tidemill.http.v1.record_schema import Base64, Header, Text, header_of, text_of
from tidemill.model.duration import parse_shift_ms
from tidemill.timer.due_time import DELAY, DELIVER_AT, DUE_MS_MAX, VALUE_BYTES_MAX, YEAR_1_MS, BadDueTime, begin_ms

LIMIT_MAX: Final = 1_000
NAMED_MAX: Final = 10_000  # arrivals or ids in one request
BUCKETS_MAX: Final = 100
BUCKETS: Final = "1s,10s,1m,10m,1h,6h,1d,7d,30d"
ARRIVAL_MAX: Final = (1 << 63) - 1
_CURSOR: Final = re.compile(r"([0-9]{1,15})-([0-9]{1,10})-([0-9]{1,19})", re.ASCII)

_TEXT: Final = Meta(min_length=1, max_length=VALUE_BYTES_MAX)
TimeText = Annotated[str, _TEXT]
Time = Annotated[int, Meta(ge=YEAR_1_MS, le=DUE_MS_MAX)] | TimeText
Duration = Annotated[int, Meta(ge=0, le=DUE_MS_MAX)] | TimeText
Shift = Annotated[int, Meta(ge=-DUE_MS_MAX, le=DUE_MS_MAX)] | TimeText
Number = Annotated[int, Meta(ge=0)]
Arrival = Annotated[int, Meta(ge=0, le=ARRIVAL_MAX)]
Bytes = str | Base64
"""UTF-8 text, or other bytes."""


class SelectQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    Which records: those with all of these properties.

    Texts are UNSET instead of None, because msgspec converts the text `null` to None if it may, and a key may be so.
    """

    key: Annotated[str, Meta(description="Records with this key.")] | UnsetType = UNSET
    key_prefix: Annotated[str, Meta(description="Records whose keys begin so.")] | UnsetType = UNSET
    id: Annotated[str, Meta(description="Records of the timer with this id.")] | UnsetType = UNSET
    due_from: (
        Annotated[TimeText, Meta(description="Due then or later: in ms since the epoch, or a time of RFC 3339.")]
        | UnsetType
    ) = UNSET
    due_before: Annotated[TimeText, Meta(description="Due earlier.")] | UnsetType = UNSET
    partition: Annotated[Number, Meta(description="Records of this partition.")] | None = None
    recurring: Annotated[bool, Meta(description="Only records with schedules.")] = False


class ListQuery(SelectQuery, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = 100
    cursor: (
        Annotated[str, Meta(max_length=64, description="That of the page before, for the records behind it.")]
        | UnsetType
    ) = UNSET
    values: Annotated[bool, Meta(description="Whether the response has the values of records.")] = False


class HistogramQuery(SelectQuery, frozen=True, forbid_unknown_fields=True):
    buckets: Annotated[str, Meta(description="Durations from now, ascending and separated by commas.")] = BUCKETS
    edges: Annotated[str, Meta(description="Times instead, ascending: in ms, or of RFC 3339.")] | UnsetType = UNSET


class WaitingTimer(msgspec.Struct, frozen=True):
    """A record that waits."""

    partition: int
    arrival: Annotated[int, Meta(description="Its number in the partition, for as long as it waits and after.")]
    due: Annotated[int, Meta(description="When it is due, in ms since the epoch.")]
    timer_id: Text
    timestamp: int | None
    size: Annotated[int, Meta(description="In bytes, as it is stored.")]
    key: Text
    headers: list[Header]
    value: Text | UnsetType = UNSET


class Timers(msgspec.Struct, frozen=True):
    """Records that wait, in the order of due time, partition and arrival."""

    records: list[WaitingTimer]
    cursor: Annotated[str | None, Meta(description="For the next page; null after the last record.")]


class FoundTimer(msgspec.Struct, frozen=True):
    """What waits with an id: one record, or one in each of several partitions if partitions were added."""

    records: list[WaitingTimer]


class PartitionTimerStats(msgspec.Struct, frozen=True):
    partition: int
    waiting: int
    bytes: Annotated[int, Meta(description="About.")]
    next_due: Annotated[int | None, Meta(description="Null if nothing waits, or a new leader has not read it yet.")]
    now: Annotated[int | None, Meta(description="The time by the release clock; null while it is not known.")]


class TimerStats(msgspec.Struct, frozen=True):
    """How much waits in a topic."""

    topic: str
    waiting: int
    bytes: int
    next_due: int | None
    partitions: list[PartitionTimerStats]


class TimerBucket(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    from_: int | None
    before: int | None
    waiting: int


class TimerHistogram(msgspec.Struct, frozen=True):
    """How many records are due when."""

    topic: str
    now: int
    buckets: list[TimerBucket]


class ChoiceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arrivals, ids, or the records with all of the other properties."""

    arrivals: Annotated[
        list[tuple[Number, Arrival]], Meta(max_length=NAMED_MAX, description="Pairs of partition and arrival.")
    ] = []
    ids: Annotated[list[Bytes], Meta(max_length=NAMED_MAX)] = []
    key: Bytes | None = None
    key_prefix: Bytes | None = None
    due_from: Time | None = None
    due_before: Time | None = None
    partition: Number | None = None
    all: Annotated[bool, Meta(description="Needed to choose all records, of the topic or of a partition.")] = False
    dry_run: Annotated[bool, Meta(description="Only count the records.")] = False


class CancelBody(ChoiceBody, frozen=True, forbid_unknown_fields=True):
    pass


class RescheduleBody(ChoiceBody, frozen=True, forbid_unknown_fields=True):
    """And exactly one of `at`, `delay` and `shift`."""

    at: Annotated[Time | None, Meta(description="When they are due: in ms, or a time of RFC 3339.")] = None
    delay: Annotated[Duration | None, Meta(description="How long from now: in ms, or such as 5m.")] = None
    shift: Annotated[Shift | None, Meta(description="How much later than now set, or earlier: such as -5m.")] = None


class TimerChangeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Exactly one of `at`, `delay` and `shift`."""

    at: Annotated[Time | None, Meta(description="When it is due: in ms, or a time of RFC 3339.")] = None
    delay: Annotated[Duration | None, Meta(description="How long from now: in ms, or such as 5m.")] = None
    shift: Annotated[Shift | None, Meta(description="How much later than now set, or earlier: such as -5m.")] = None


class Cancelled(msgspec.Struct, frozen=True):
    cancelled: Annotated[int, Meta(description="Records that will not be delivered.")]
    already_released: Annotated[int, Meta(description="Arrivals that were released, cancelled or replaced before.")]
    unknown: Annotated[int, Meta(description="Arrivals that do not exist, and ids with which nothing waits.")]


class Rescheduled(msgspec.Struct, frozen=True):
    rescheduled: int
    already_released: Annotated[int, Meta(description="Arrivals that were released, cancelled or replaced before.")]
    unknown: Annotated[int, Meta(description="Arrivals that do not exist, and ids with which nothing waits.")]


def choice_of_query(query: SelectQuery) -> TimerChoice:
    """Raise Refused for a bad time."""
    timer_id = _encoded(query.id)
    return TimerChoice(
        partition=query.partition,
        ids=() if timer_id is None else (timer_id,),
        key=_encoded(query.key),
        key_prefix=_encoded(query.key_prefix),
        due_from_ms=None if query.due_from is UNSET else _parsed(DELIVER_AT, query.due_from, "due_from"),
        due_before_ms=None if query.due_before is UNSET else _parsed(DELIVER_AT, query.due_before, "due_before"),
        is_recurring=query.recurring,
    )


def _encoded(text: str | UnsetType) -> bytes | None:
    return None if isinstance(text, UnsetType) else text.encode()


def choice_of_body(body: ChoiceBody) -> TimerChoice:
    """Raise Refused for a body that does not choose, or chooses in two ways."""
    choice = TimerChoice(
        partition=body.partition,
        arrivals=body.arrivals,
        ids=[_bytes(it) for it in body.ids],
        key=None if body.key is None else _bytes(body.key),
        key_prefix=None if body.key_prefix is None else _bytes(body.key_prefix),
        due_from_ms=time_of(body.due_from, "due_from"),
        due_before_ms=time_of(body.due_before, "due_before"),
    )
    ways = {
        "arrivals": bool(body.arrivals),
        "ids": bool(body.ids),
        "key, key_prefix, due_from and due_before": choice.is_selection,
        "all": body.all,
    }
    given = [name for name, is_given in ways.items() if is_given]
    if not given:
        raise Refused(
            400, 'no records are chosen: give arrivals, ids, key, key_prefix, due_from or due_before, or "all": true'
        )
    if len(given) > 1:
        raise Refused(400, f"records are chosen in two ways, by {given[0]} and by {given[1]}: use one of them")
    if choice.key_prefix == b"":  # a variable without a value should not cancel whatever has a key
        raise Refused(400, 'key_prefix is empty, so it would choose every record with a key: write one, or "all": true')
    if body.arrivals and body.partition is not None:
        raise Refused(400, f"arrivals name their partitions: leave partition {body.partition} out")
    return choice


def change_of(body: RescheduleBody | TimerChangeBody) -> Change:
    """Raise Refused unless the body says, in one way, when records are due."""
    if sum(it is not None for it in (body.at, body.delay, body.shift)) != 1:
        raise Refused(400, "the body needs exactly one of at, delay and shift")
    if body.delay is not None:
        return delayed_by(_parsed(DELAY, body.delay, "delay"))
    if body.shift is not None:
        return shifted_by(shift_of(body.shift))
    at = time_of(body.at, "at")
    assert at is not None
    return due_at(at)


def time_of(value: int | str | None, where: str) -> int | None:
    """Return a time in ms since the epoch, negative before 1970.  Raise Refused for one that is malformed."""
    return None if value is None else _parsed(DELIVER_AT, value, where)


def _parsed(header: str, value: int | str, where: str) -> int:
    try:
        return begin_ms([(header, str(value).encode())], 0)
    except BadDueTime as problem:
        raise Refused(400, f"{where}: {str(problem).replace(f'{header}=', '', 1)}") from problem


def shift_of(value: int | str) -> int:
    """Return a duration in ms, which may be negative.  Raise Refused for one that is malformed."""
    if isinstance(value, int):
        return value
    ms = parse_shift_ms(value)
    if ms is None or abs(ms) > DUE_MS_MAX:
        raise Refused(400, f"shift: {value!r}: write ms, or a number and ms, s, m, h or d, such as -5m")
    return ms


def edges_of(query: HistogramQuery, now_ms: int) -> list[int]:
    """Return the ascending times between buckets.  Raise Refused."""
    if isinstance(query.edges, UnsetType):
        name, texts = "buckets", query.buckets.split(",")
        edges = [now_ms + _parsed(DELAY, it, name) for it in texts]
    else:
        name, texts = "edges", query.edges.split(",")
        edges = [_parsed(DELIVER_AT, it, name) for it in texts]
        if query.buckets != BUCKETS:
            raise Refused(400, "buckets and edges: give one of them")
    if len(edges) > BUCKETS_MAX:
        raise Refused(400, f"{name}: there are {len(edges)}; give at most {BUCKETS_MAX}")
    for at, (edge, following) in enumerate(pairwise(edges), 1):
        if edge >= following:
            raise Refused(400, f"{name}: {texts[at]} follows {texts[at - 1]}, but is not later; give them ascending")
    return edges


def buckets_of(edges: list[int], counts: list[int]) -> list[TimerBucket]:
    bounds = [None, *edges, None]
    return [TimerBucket(*it) for it in zip(bounds, bounds[1:], counts, strict=False)]


def order_of(cursor: str | UnsetType) -> DueOrder | None:
    """Return where a page begins.  Raise Refused."""
    if isinstance(cursor, UnsetType):
        return None
    found = _CURSOR.fullmatch(cursor)
    order = None if found is None else DueOrder(*map(int, found.groups()))
    if order is None or order.arrival > ARRIVAL_MAX:
        raise Refused(400, f"cursor={cursor[:100]} is not a cursor: send that of the page before, or none")
    return order


def cursor_of(order: DueOrder | None) -> str | None:
    return None if order is None else "-".join(map(str, order))


def waiting_of(listed: Listed, *, has_value: bool) -> WaitingTimer:
    record = listed.record
    return WaitingTimer(
        partition=listed.order.partition,
        arrival=record.arrival,
        due=record.due_ms,
        timer_id=text_of(record.timer_id),
        timestamp=record.timestamp_ms if record.timestamp_ms >= 0 else None,
        size=record.size_bytes,
        key=text_of(record.key),
        headers=[header_of(it.name, it.value) for it in record.headers],
        value=text_of(record.value) if has_value else UNSET,
    )


def _bytes(text: Bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text.base64
