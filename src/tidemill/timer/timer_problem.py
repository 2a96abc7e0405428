"""Why a timer topic refuses a record.  The broker says so in its response, but librdkafka does not pass it on."""

from collections.abc import Sequence

from tidemill.timer.due_time import BadDueTime, begin_ms
from tidemill.timer.schedule import BadSchedule, parse_schedule, shown
from tidemill.timer.timer_headers import HEADERS_MAX, SCHEDULE, BadTimerId, timer_id, too_many_headers


def timer_problem(headers: Sequence[tuple[str, bytes | None]], now_ms: int) -> str | None:
    """
    Return what is wrong with the headers of a record that was sent about now, and the fix; None if nothing is.
    """
    if len(headers) > HEADERS_MAX:
        return too_many_headers(len(headers))
    try:
        begin = begin_ms(headers, now_ms)
        timer_id(headers)
        schedule = parse_schedule(headers)
        if schedule is None:
            return None
        first_ms = schedule.first(begin)
        if first_ms is None:
            said = shown(SCHEDULE, dict(headers)[SCHEDULE])
            return f"{said}: the first occurrence is later than the year 9999 allows"
        schedule.check_begin(first_ms, now_ms)
    except (BadDueTime, BadTimerId, BadSchedule) as problem:
        return str(problem)
    return None
