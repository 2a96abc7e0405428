"""When a record of a timer topic is due, and when it recurs: fields of the API, which become headers."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal, Protocol

from msgspec import Meta

from tidemill.model.topic_config import TopicConfig
from tidemill.timer.due_time import (
    DELAY,
    DELIVER_AT,
    DUE_MS_MAX,
    UNLIMITED,
    VALUE_BYTES_MAX,
    YEAR_1_MS,
    BadDueTime,
    due_ms,
)
from tidemill.timer.schedule import VALUE_BYTES_MAX as SCHEDULE_BYTES_MAX
from tidemill.timer.schedule import BadSchedule, parse_schedule
from tidemill.timer.timer_headers import ARRIVAL, ID_BYTES_MAX, MISSED, SCHEDULE, TIMER_ID, TIMEZONE

_TEXT: Final = Meta(min_length=1, max_length=VALUE_BYTES_MAX)
_MS = Annotated[int, Meta(ge=0, le=DUE_MS_MAX)]
_MOMENT_MS = Annotated[int, Meta(ge=YEAR_1_MS, le=DUE_MS_MAX)]
Delay = Annotated[
    _MS | Annotated[str, _TEXT] | None,
    Meta(description="Deliver the record so much later: in ms, or a number and ms, s, m, h or d. Timer topics only."),
]
At = Annotated[
    _MOMENT_MS | Annotated[str, _TEXT] | None,
    Meta(description="Deliver the record then: in ms since the epoch, or a time of RFC 3339. Timer topics only."),
]
TimerId = Annotated[
    Annotated[str, Meta(min_length=1, max_length=ID_BYTES_MAX)] | None,
    Meta(
        description="The name of a timer: this record replaces the one that waits with it in its partition, so it "
        "needs the same `key` each time, or a `partition`. Timer topics only."
    ),
]


Schedule = Annotated[
    Annotated[str, Meta(min_length=1, max_length=SCHEDULE_BYTES_MAX)] | None,
    Meta(
        description="Deliver the record again and again: `every 15m`, or `cron` and five fields. It begins at `at` and "
        "needs a `timer_id`. Timer topics only."
    ),
]
Timezone = Annotated[
    Annotated[str, Meta(min_length=1, max_length=SCHEDULE_BYTES_MAX)] | None,
    Meta(description="The time zone of a cron schedule, such as `Europe/Berlin`; UTC, if absent."),
]
Missed = Annotated[
    Literal["one", "all", "none"] | None,
    Meta(description="What becomes of occurrences that an outage has delayed; `one`, if absent."),
]


class DueFields(Protocol):
    """The fields of a record, or of a query."""

    @property
    def delay(self) -> int | str | None: ...

    @property
    def at(self) -> int | str | None: ...

    @property
    def timer_id(self) -> str | None: ...

    @property
    def schedule(self) -> str | None: ...

    @property
    def timezone(self) -> str | None: ...

    @property
    def missed(self) -> str | None: ...


def timer_headers(
    fields: DueFields, *, headers: Sequence[tuple[str, bytes | None]], config: TopicConfig, now_ms: int
) -> list[tuple[str, bytes]]:
    """
    Return the headers that a record gets beside those that it has.

    Raise BadDueTime, which names the field, for a bad value, and for any on a topic that is not of kind timer.
    """
    delay, at, timer_id = fields.delay, fields.at, fields.timer_id
    values = (
        ("delay", DELAY, delay),
        ("at", DELIVER_AT, at),
        ("timer_id", TIMER_ID, timer_id),
        ("schedule", SCHEDULE, fields.schedule),
        ("timezone", TIMEZONE, fields.timezone),
        ("missed", MISSED, fields.missed),
    )
    given = [(field, header, str(value)) for field, header, value in values if value is not None]
    if not config.is_timer:
        if given:
            field, _, value = given[0]
            raise BadDueTime(
                f"{field}={value[:100]}: the topic is of kind {config.kind}, which delivers records at once; leave it "
                "out, or create the topic with tidemill.kind=timer"
            )
        return []
    if delay is not None and at is not None:
        raise BadDueTime("delay and at: give one of them")
    made = [(header, value.encode()) for _, header, value in given]
    if timer_id is not None and len(timer_id.encode()) > ID_BYTES_MAX:
        raise BadDueTime(f"timer_id={timer_id[:100]}: it has more than {ID_BYTES_MAX} bytes; choose a shorter one")
    # With `tidemill-arrival`, small numbers are what a broker has written.  A field is written by the client.
    passed_on = headers if at is None else [it for it in headers if it[0] != ARRIVAL]
    every = [*passed_on, *made]
    # How far ahead a time is, only the leader can say: its clock counts.
    limit = UNLIMITED if delay is None else config.max_delay_ms
    try:
        due_ms(every, now_ms, limit)
        parse_schedule(every)
    except (BadDueTime, BadSchedule) as problem:
        names = {header: field for field, header, _ in given}  # the client may have given the header itself
        raise BadDueTime(f"{names.get(problem.header, 'headers')}: {problem}") from problem
    return made
