"""The event log: one line per event, as text for people or as JSON for programs."""

import json
import traceback
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

Field = str | int | float | bool | None
NOTHING: Final[Mapping[str, Field]] = MappingProxyType({})
OUTAGE_MS: Final = 20_000
"""A condition that ends by itself within this time, such as a broker's restart, needs no warning."""

LINE_CHARACTERS_MAX: Final = 4_096  # journald and most log collectors split or truncate longer lines
TRACE_CHARACTERS_MAX: Final = 2_400  # leaves room for the rest of the line and for escaped newlines in JSON


class EventLog:
    """
    Formats each event as one line, and passes the line with a newline to `write`.

        event("segment removed", topic="flights", bytes=4096)
    """

    def __init__(
        self,
        write: Callable[[str], object],
        wall_ms: Callable[[], int],
        *,
        as_json: bool,
        common_fields: Mapping[str, Field] = NOTHING,
    ) -> None:
        """
        Create a log that passes lines to `write`.

        `wall_ms` returns the time in milliseconds since the epoch.  Every line has the fields in `common_fields`.
        """
        self._common_fields = common_fields
        self._write = write
        self._wall_ms = wall_ms
        self._as_json = as_json

    def event(self, event: str, **fields: Field) -> None:
        """Log an event that an operator wants to know about."""
        self._line("info", event, fields)

    def warning(self, event: str, **fields: Field) -> None:
        """Log an event after which an operator may have to act."""
        self._line("warning", event, fields)

    def waiting(self, event: str, waited_ms: int, **fields: Field) -> None:
        """Log that the broker has been waiting for `waited_ms`.  After OUTAGE_MS, the event is a warning."""
        self._line("info" if waited_ms < OUTAGE_MS else "warning", event, fields)

    def error(self, event: str, **fields: Field) -> None:
        """Log a failure of the broker or of its machine."""
        self._line("error", event, fields)

    def failure(self, event: str, error: BaseException, **fields: Field) -> None:
        """Log an unexpected exception, which is a bug, with the end of its traceback on the same line."""
        trace = "".join(traceback.format_exception(error)).rstrip()
        self.error(
            event,
            **fields,
            problem=f"{type(error).__name__}: {error}"[: TRACE_CHARACTERS_MAX // 4],
            trace=trace[-TRACE_CHARACTERS_MAX:],
        )

    def _line(self, level: str, event: str, fields: dict[str, Field]) -> None:
        moment = _rfc3339(self._wall_ms())
        fields = {**self._common_fields, **fields}
        if self._as_json:
            line = json.dumps({"time": moment, "level": level, "event": event, **fields}, ensure_ascii=False)
            if len(line) > LINE_CHARACTERS_MAX:  # Truncate values instead of the line, which must stay valid JSON.
                shorter = {name: value[:200] if isinstance(value, str) else value for name, value in fields.items()}
                line = json.dumps({"time": moment, "level": level, "event": event, **shorter, "cut": True})
        else:
            text = " ".join(f"{name}={_shown(value)}" for name, value in fields.items())
            line = f"{moment} {level:<7} {event}{'  ' if text else ''}{text}"[:LINE_CHARACTERS_MAX]
        self._write(line + "\n")


def _shown(value: Field) -> str:
    """Return `value` as text on one line.  It is quoted if it has spaces, quotes, `=` or control characters."""
    text = str(value)
    plain = text.isprintable() and text and not set(text) & set(" \"'=")
    return text if plain else json.dumps(text, ensure_ascii=False)


def _rfc3339(wall_ms: int) -> str:
    """
    Format a time as RFC 3339, in UTC with milliseconds.

    The date is computed here, because this layer must not import `time`.
    """
    days, ms = divmod(wall_ms, 86_400_000)
    # Count days from 0000-03-01 in eras of 400 years.  Years start in March, so a leap day is the last of its year.
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    year = era * 400 + year_of_era + (1 if month <= 2 else 0)
    seconds, ms = divmod(ms, 1_000)
    return f"{year:04}-{month:02}-{day:02}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}Z"
