"""When a record of a timer topic is due: the fields `delay`, `at` and `timer_id` of the API, which become headers."""

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta

from tidemill.model.topic_config import TopicConfig
from tidemill.timer.due_time import DELAY, DELIVER_AT, DUE_MS_MAX, UNLIMITED, VALUE_BYTES_MAX, BadDueTime, due_ms
from tidemill.timer.timer_headers import ID_BYTES_MAX, TIMER_ID

_TEXT: Final = Meta(min_length=1, max_length=VALUE_BYTES_MAX)
_MS = Annotated[int, Meta(ge=0, le=DUE_MS_MAX)]
Delay = Annotated[
    _MS | Annotated[str, _TEXT] | None,
    Meta(description="Deliver the record so much later: in ms, or a number and ms, s, m, h or d. Timer topics only."),
]
At = Annotated[
    _MS | Annotated[str, _TEXT] | None,
    Meta(description="Deliver the record then: in ms since the epoch, or a time of RFC 3339. Timer topics only."),
]
TimerId = Annotated[
    Annotated[str, Meta(min_length=1, max_length=ID_BYTES_MAX)] | None,
    Meta(description="The name of a timer: this record replaces the one that waits with it. Timer topics only."),
]


def timer_headers(
    delay: int | str | None,
    at: int | str | None,
    timer_id: str | None,
    *,
    headers: Sequence[tuple[str, bytes | None]],
    config: TopicConfig,
    now_ms: int,
) -> list[tuple[str, bytes]]:
    """
    Return the headers that a record gets beside those that it has.

    Raise BadDueTime, which names the field, for a bad value, and for any on a topic that is not of kind timer.
    """
    fields = (("delay", DELAY, delay), ("at", DELIVER_AT, at), ("timer_id", TIMER_ID, timer_id))
    given = [(field, header, str(value)) for field, header, value in fields if value is not None]
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
    # How far ahead a time is, only the leader can say: its clock counts.
    limit = UNLIMITED if delay is None else config.max_delay_ms
    try:
        due_ms([*headers, *made], now_ms, limit)
    except BadDueTime as problem:
        where = next((field for field, header, _ in given if header in (DELAY, DELIVER_AT)), "headers")
        raise BadDueTime(f"{where}: {problem}") from problem
    return made
