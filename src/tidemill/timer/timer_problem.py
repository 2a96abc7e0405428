"""Why a timer topic refuses a record.  The broker says so in its response, but librdkafka does not pass it on."""

from collections.abc import Sequence

from tidemill.timer.due_time import BadDueTime, due_ms
from tidemill.timer.schedule import BadSchedule, parse_schedule
from tidemill.timer.timer_headers import HEADERS_MAX, BadTimerId, timer_id, too_many_headers


def timer_problem(headers: Sequence[tuple[str, bytes | None]]) -> str | None:
    """Return what is wrong with the headers of a record, and the fix; None if nothing is."""
    if len(headers) > HEADERS_MAX:
        return too_many_headers(len(headers))
    try:
        due_ms(headers, 0)
        timer_id(headers)
        parse_schedule(headers)
    except (BadDueTime, BadTimerId, BadSchedule) as problem:
        return str(problem)
    return None
