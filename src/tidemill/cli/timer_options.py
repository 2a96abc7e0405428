"""Options of `tidemill timers` that choose records, and say when they are due."""

import time
from typing import Annotated, Final

import typer

from tidemill.cli.argument_bytes import argument_bytes
from tidemill.cli.failure import Failed, usage

TIMES: Final = "TIME"
_TIME_HELP: Final = "2027-01-31T08:00:00Z, ms since the epoch, or 10m from now"

IdsArgument = Annotated[list[str] | None, typer.Argument(metavar="[ID…]", show_default=False, help="Ids of timers.")]
KeyOption = Annotated[str | None, typer.Option("--key", metavar="KEY", help="Records with this key.")]
PrefixOption = Annotated[str | None, typer.Option("--key-prefix", metavar="TEXT", help="Records whose keys begin so.")]
FromOption = Annotated[
    str | None, typer.Option("--due-from", metavar=TIMES, help=f"Records due then or later: {_TIME_HELP}.")
]
BeforeOption = Annotated[str | None, typer.Option("--due-before", metavar=TIMES, help="Records due earlier.")]
PartitionOption = Annotated[
    int | None, typer.Option(metavar="P", min=0, help="Records of this partition.", show_default=False)
]
ArrivalsOption = Annotated[
    list[str] | None,
    typer.Option("--arrival", metavar="P:N", help="Partition and arrival number of a record.  Repeatable."),
]
AllOption = Annotated[bool, typer.Option("--all", help="All records, of all partitions or one.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only count the records.")]


def time_ms(text: str | None, *, option: str) -> int | None:
    """
    Return the value of a time option in ms since the epoch, negative before 1970.  Raise a usage error for an invalid
    one.
    """
    from tidemill.model.duration import parse_duration_ms
    from tidemill.timer.due_time import DELIVER_AT, BadDueTime, begin_ms

    if text is None:
        return None
    later_ms = parse_duration_ms(text)
    if later_ms is not None:
        _check_distance(later_ms, text, option)
        return time.time_ns() // 1_000_000 + later_ms
    try:
        return begin_ms([(DELIVER_AT, argument_bytes(text))], 0)
    except BadDueTime as problem:
        raise _bad(text, option, f"a time such as {_TIME_HELP}") from problem


def shift_ms(text: str, *, option: str) -> int:
    """Return the value of an option that moves times.  Raise a usage error for an invalid one."""
    from tidemill.model.duration import parse_shift_ms

    found = parse_shift_ms(text)
    if found is None:
        raise _bad(text, option, "a number and a unit: ms, s, m, h or d, for example 30m or -2h")
    _check_distance(abs(found), text, option)
    return found


def arrival_of(text: str) -> tuple[int, int]:
    """Return partition and arrival number.  Raise a usage error for an invalid value."""
    partition, _, arrival = text.partition(":")
    numbers = [it for it in (partition, arrival) if it.isascii() and it.isdigit() and len(it) <= 18]
    if len(numbers) != 2:
        raise _bad(text, "--arrival", "PARTITION:NUMBER, as `timers list` shows them, for example 0:42")
    return int(partition), int(arrival)


def _check_distance(ms: int, text: str, option: str) -> None:
    """Raise a usage error for a duration that leads beyond all times, so that no request can express where."""
    from tidemill.model.duration import shown
    from tidemill.timer.due_time import DUE_MS_MAX

    if ms > DUE_MS_MAX:
        raise usage(f"{option} {text}: at most {shown(DUE_MS_MAX)}")


def _bad(text: str, option: str, wanted: str) -> Failed:
    return usage(f"{option} {text!r}: use {wanted}")
