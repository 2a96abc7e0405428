"""Look into what waits in timer topics, and cancel or reschedule it before it is due.

\b
Examples:
  tidemill timers list reminders --due-before 1h
  tidemill timers show reminders ann-1
  tidemill timers histogram reminders
  tidemill timers reschedule reminders ann-1 --delay 30m
  tidemill timers cancel reminders --key-prefix ann --dry-run
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidemill.cli.argument_bytes import argument_bytes
from tidemill.cli.bootstrap import BootstrapOption, JsonOption, resolve
from tidemill.cli.command_group import CommandGroup
from tidemill.cli.confirmation import YesOption, confirm
from tidemill.cli.duration import DURATIONS, duration_ms
from tidemill.cli.failure import Failed, usage
from tidemill.cli.timer_options import (
    TIMES,
    AllOption,
    ArrivalsOption,
    BeforeOption,
    DryRunOption,
    FromOption,
    IdsArgument,
    KeyOption,
    PartitionOption,
    PrefixOption,
    arrival_of,
    shift_ms,
    time_ms,
)

if TYPE_CHECKING:
    from tidemill.client.timer_choice import Change, Outcome, TimerChoice
    from tidemill.client.timer_client import TimerClient

SHOWN_DEFAULT: Final = 100
UNASKED_MAX: Final = 100  # records that a selection may change without a question
BUCKETS: Final = "1s,10s,1m,10m,1h,6h,1d,7d,30d"
DELAY_MS_MAX: Final = 253_402_300_799_999  # until the end of the year 9999

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]


def register(application: typer.Typer) -> None:
    timers = CommandGroup("timers", __doc__)
    for command in (list_records, show, schedules, stats, histogram, cancel, reschedule):
        timers.command(name="list" if command is list_records else command.__name__)(command)
    application.add_typer(timers)


@contextmanager
def _client(address: str, topic: str) -> Iterator["TimerClient"]:
    """Yield a client; convert its errors."""
    from tidemill.cli.client_errors import client_errors  # imported here because the imports are slow (decision 12)
    from tidemill.cli.client_session import client_session
    from tidemill.client.timer_client import TimerClient

    with client_session(address) as cluster, client_errors(address, f"topic {topic!r}"):
        yield TimerClient(cluster)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _selection(
    key: str | None, key_prefix: str | None, due_from: str | None, due_before: str | None, partition: int | None
) -> dict[str, Any]:
    """Return the fields of a TimerChoice that select records."""
    return {
        "key": None if key is None else argument_bytes(key),
        "key_prefix": None if key_prefix is None else argument_bytes(key_prefix),
        "due_from_ms": time_ms(due_from, option="--due-from"),
        "due_before_ms": time_ms(due_before, option="--due-before"),
        "partition": partition,
    }


def list_records(
    topic: TopicArgument,
    key: KeyOption = None,
    key_prefix: PrefixOption = None,
    timer_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Records of the timer with this id.")
    ] = None,
    due_from: FromOption = None,
    due_before: BeforeOption = None,
    partition: PartitionOption = None,
    max_: Annotated[int, typer.Option("--max", metavar="N", min=1, help="Stop after N records.")] = SHOWN_DEFAULT,
    values: Annotated[bool, typer.Option("--values", help="Show the values, too.")] = False,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    List records that wait, in the order in which they are due.

    A record is listed if it has all properties that the options name.  arrival is its number in its partition, which it
    keeps; in is the time until it is due.

    \b
    Examples:
      tidemill timers list reminders --due-before 1h --values
      tidemill timers list reminders --key ann --json
    """
    chosen = _selection(key, key_prefix, due_from, due_before, partition)
    address = resolve(bootstrap)

    from tidemill.cli.output import pipe_may_close, print_json, print_table
    from tidemill.cli.timer_view import cells, columns, row
    from tidemill.client.timer_choice import TimerChoice

    choice = TimerChoice(ids=() if timer_id is None else (argument_bytes(timer_id),), **chosen)
    with _client(address, topic) as timers:
        found = list(timers.records(topic, choice, count_max=max_ + 1, has_values=values))
    with pipe_may_close():
        if as_json:
            for it in found[:max_]:
                print_json(row(topic, it, has_value=values))
        else:
            now_ms = _now_ms()
            print_table(columns(has_value=values), [cells(it, now_ms, has_value=values) for it in found[:max_]])
    if len(found) > max_:
        _note(f"there are more; the first {max_} are shown (--max)")


def show(
    topic: TopicArgument,
    timer_id: Annotated[str, typer.Argument(metavar="ID", show_default=False, help="The id of the timer.")],
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Show the record that waits with an id.

    If partitions were added to the topic, records may wait with the same id in several partitions: all are shown.

    Example: tidemill timers show reminders ann-1 --json
    """
    address = resolve(bootstrap)

    from tidemill.cli.output import pipe_may_close, print_json
    from tidemill.cli.timer_view import print_record, row
    from tidemill.client.timer_choice import TimerChoice

    with _client(address, topic) as timers:
        found = list(timers.records(topic, TimerChoice(ids=(argument_bytes(timer_id),)), has_values=True))
    if not found:
        raise _waits_nowhere(topic, [timer_id], is_one=True)
    with pipe_may_close():
        for number, it in enumerate(found):
            if as_json:
                print_json(row(topic, it, has_value=True))
            else:
                print(end="\n" if number else "")
                print_record(it, _now_ms())


def schedules(
    topic: TopicArgument,
    partition: PartitionOption = None,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    List records that recur, with their schedules, in the order in which they are due next.

    To end a schedule, cancel it by its id.

    Example: tidemill timers schedules reminders --json
    """
    address = resolve(bootstrap)

    from tidemill.cli.output import pipe_may_close, print_json, print_table
    from tidemill.cli.timer_view import SCHEDULE_COLUMNS, row, schedule_cells
    from tidemill.client.timer_choice import TimerChoice

    with _client(address, topic) as timers:
        found = list(timers.records(topic, TimerChoice(partition=partition, is_recurring=True)))
    with pipe_may_close():
        if as_json:
            for it in found:
                print_json(row(topic, it, has_value=False))
        else:
            now_ms = _now_ms()
            print_table(SCHEDULE_COLUMNS, [schedule_cells(it, now_ms) for it in found])


def stats(
    topic: TopicArgument,
    partition: PartitionOption = None,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Show how much waits in each partition, and what is due next.

    Example: tidemill timers stats reminders --json
    """
    address = resolve(bootstrap)

    from tidemill.cli.output import pipe_may_close, print_json, print_table
    from tidemill.cli.queue_records import moment
    from tidemill.cli.timer_view import time_left

    with _client(address, topic) as timers:
        rows = timers.stats(topic, partition)
    with pipe_may_close():
        if as_json:
            for it in rows:
                print_json(
                    {
                        "topic": topic,
                        "partition": it.partition,
                        "waiting": it.waiting,
                        "waiting_bytes": it.waiting_bytes,
                        "next_due_ms": it.next_due_ms,
                        "now_ms": it.limit_ms,
                    }
                )
            return
        now_ms = _now_ms()
        table = [
            [
                it.partition,
                it.waiting,
                it.waiting_bytes,
                None if it.next_due_ms is None else moment(it.next_due_ms),
                None if it.next_due_ms is None else time_left(it.next_due_ms, now_ms),
            ]
            for it in rows
        ]
        print_table(("partition", "waiting", "bytes", "next due", "in"), table)


def histogram(
    topic: TopicArgument,
    buckets: Annotated[
        str, typer.Option(metavar="DURATION,…", help="Where buckets end, counted from now; ascending.")
    ] = BUCKETS,
    key: KeyOption = None,
    key_prefix: PrefixOption = None,
    partition: PartitionOption = None,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Count the records that wait by the time until they are due.

    Now is the time by the clocks of the brokers.  On a terminal, bars show the counts.

    \b
    Examples:
      tidemill timers histogram reminders
      tidemill timers histogram reminders --key-prefix ann --buckets 1h,1d,7d --json
    """
    durations = buckets.split(",")
    lengths = [duration_ms(it, option="--buckets", at_most_ms=DELAY_MS_MAX) for it in durations]
    if lengths != sorted(set(lengths)):
        raise usage(f"--buckets {buckets}: the durations must ascend, for example 1m,1h,1d")
    chosen = _selection(key, key_prefix, None, None, partition)
    address = resolve(bootstrap)

    from tidemill.cli.output import counted, pipe_may_close, print_json, print_table
    from tidemill.cli.timer_view import bar, labels
    from tidemill.client.timer_choice import TimerChoice

    with _client(address, topic) as timers:
        clocks = [it.limit_ms for it in timers.stats(topic, partition) if it.limit_ms is not None]
        now_ms = max(clocks, default=_now_ms())
        edges = [now_ms + it for it in lengths]
        counts = timers.histogram(topic, edges, TimerChoice(**chosen))
    with pipe_may_close():
        if as_json:
            for first, last, count in zip([None, *edges], [*edges, None], counts, strict=True):
                print_json({"topic": topic, "from_ms": first, "before_ms": last, "waiting": count})
            return
        rows: list[list[object]] = [[*it] for it in zip(labels(durations), counts, strict=True)]
        if sys.stdout.isatty():
            rows = [[*it, bar(count, max(counts))] for it, count in zip(rows, counts, strict=True)]
            print_table(("due", "records", ""), rows, title=f"{counted(sum(counts), 'record')} waiting in {topic}")
        else:
            print_table(("due", "records"), rows)


def cancel(
    topic: TopicArgument,
    ids: IdsArgument = None,
    arrivals: ArrivalsOption = None,
    key: KeyOption = None,
    key_prefix: PrefixOption = None,
    due_from: FromOption = None,
    due_before: BeforeOption = None,
    partition: PartitionOption = None,
    all_: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Cancel records that wait: they are never delivered.

    Choose them by the ids of their timers, by their arrival numbers, or by properties, all of which they have.  On a
    terminal, the command asks before it cancels all records, or more than 100.  It fails if a record that an id or a
    number names does not wait; the others are cancelled nevertheless.  Repeating the command is safe.

    \b
    Examples:
      tidemill timers cancel reminders ann-2 ann-3
      tidemill timers cancel reminders --arrival 0:3
      tidemill timers cancel reminders --key bob --due-before 1d
      tidemill timers cancel reminders --all --dry-run
    """
    chosen = _selection(key, key_prefix, due_from, due_before, partition)
    choice = _choice(ids, arrivals, chosen, is_all=all_)

    from tidemill.client.timer_choice import CANCELLED

    _resolve(topic, choice, CANCELLED, "cancelled", bootstrap, dry_run=dry_run, yes=yes, as_json=as_json)


def reschedule(
    topic: TopicArgument,
    ids: IdsArgument = None,
    at: Annotated[
        str | None, typer.Option(metavar=TIMES, help="Make the records due then: 2027-01-31T08:00:00Z, or in ms.")
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(metavar=DURATIONS, help="Make the records due so long from now, by the broker's clock."),
    ] = None,
    shift: Annotated[
        str | None, typer.Option(metavar="[-]DURATION", help="Make each record due so much later, or earlier.")
    ] = None,
    arrivals: ArrivalsOption = None,
    key: KeyOption = None,
    key_prefix: PrefixOption = None,
    due_from: FromOption = None,
    due_before: BeforeOption = None,
    partition: PartitionOption = None,
    all_: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Change when records that wait are due.

    Choose them as for `timers cancel`, and give one of --at, --delay and --shift.  A time that is past makes them due
    at once.  Repeating the command is safe with --at; with --shift, it moves the records again.

    \b
    Examples:
      tidemill timers reschedule reminders ann-1 --delay 30m
      tidemill timers reschedule reminders --key ann --at 2027-01-31T08:00:00Z
      tidemill timers reschedule reminders --all --shift -1h --dry-run
    """
    if sum(it is not None for it in (at, delay, shift)) != 1:
        raise usage("give exactly one of --at TIME, --delay DURATION and --shift DURATION")

    from tidemill.client.timer_choice import delayed_by, due_at, shifted_by

    if delay is not None:
        change = delayed_by(duration_ms(delay, option="--delay", at_most_ms=DELAY_MS_MAX))
    elif shift is not None:
        change = shifted_by(shift_ms(shift, option="--shift"))
    else:
        due = time_ms(at, option="--at")
        assert due is not None
        change = due_at(due)
    chosen = _selection(key, key_prefix, due_from, due_before, partition)
    choice = _choice(ids, arrivals, chosen, is_all=all_)
    _resolve(topic, choice, change, "rescheduled", bootstrap, dry_run=dry_run, yes=yes, as_json=as_json)


def _choice(
    ids: list[str] | None, arrivals: list[str] | None, chosen: dict[str, Any], *, is_all: bool
) -> "TimerChoice":
    """Return what the options choose.  Raise a usage error unless they do so in one way."""
    from tidemill.client.timer_choice import TimerChoice

    choice = TimerChoice(
        ids=[argument_bytes(it) for it in ids or ()], arrivals=[arrival_of(it) for it in arrivals or ()], **chosen
    )
    ways = {
        "ids": bool(ids),
        "--arrival": bool(arrivals),
        "--key, --key-prefix, --due-from and --due-before": choice.is_selection,
        "--all": is_all,
    }
    given = [name for name, is_given in ways.items() if is_given]
    if not given:
        raise usage("choose records by ids, --arrival, --key, --key-prefix, --due-from or --due-before, or give --all")
    if len(given) > 1:
        raise usage(f"{given[0]} and {given[1]} both choose records: use one of them")
    if choice.key_prefix == b"":  # a variable without a value should not cancel whatever has a key
        raise usage("--key-prefix '' would choose every record with a key: write a prefix, or give --all")
    if arrivals and choice.partition is not None:
        raise usage(f"--partition {choice.partition}: --arrival names the partition already")
    return choice


def _resolve(
    topic: str,
    choice: "TimerChoice",
    change: "Change",
    done: str,
    bootstrap: str | None,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Cancel or reschedule the records, and print what has become of them."""
    address = resolve(bootstrap)

    from tidemill.cli.output import pipe_may_close, print_json, print_table

    is_named = bool(choice.ids or choice.arrivals)
    with _client(address, topic) as timers:
        if not (is_named or dry_run or yes) and sys.stdin.isatty():
            _ask(timers, topic, choice, change, done)
        outcome = timers.resolve(topic, choice, change, is_trial=dry_run)
    with pipe_may_close():
        if as_json:
            counts = dict(zip((done, "already_released", "unknown"), outcome, strict=True))
            print_json({"topic": topic, **counts, "dry_run": dry_run})
        else:
            print_table((f"would be {done}" if dry_run else done, "already released", "unknown"), [outcome])
    if is_named:
        _check(topic, choice, outcome)


def _ask(timers: "TimerClient", topic: str, choice: "TimerChoice", change: "Change", done: str) -> None:
    """Ask before many records are changed."""
    from tidemill.cli.output import counted

    count = timers.resolve(topic, choice, change, is_trial=True).changed
    if count > UNASKED_MAX or not choice.is_selection:
        verb = {"cancelled": "Cancel", "rescheduled": "Reschedule"}[done]
        question = f"{verb} {counted(count, 'record')} that {'waits' if count == 1 else 'wait'} in {topic}?"
        confirm(question, is_sure=False, otherwise="nothing was changed")


def _check(topic: str, choice: "TimerChoice", outcome: "Outcome") -> None:
    """Raise `Failed` if a record that was named does not wait."""
    missed = outcome.over + outcome.unknown
    if missed:
        names = [it.decode(errors="replace") for it in choice.ids] or [f"{it[0]}:{it[1]}" for it in choice.arrivals]
        raise _waits_nowhere(topic, names, is_one=len(names) == 1, missed=missed)


def _waits_nowhere(topic: str, names: list[str], *, is_one: bool, missed: int = 1) -> Failed:
    what = repr(names[0]) if is_one else f"{missed} of the {len(names)} that were named"
    verb = "waits" if is_one or missed == 1 else "wait"
    return Failed(
        f"{what} {verb} nowhere in topic {topic!r}: released, cancelled or replaced before, or never there; "
        f"`tidemill timers list {topic}` lists what waits"
    )


def _note(text: str) -> None:
    """Print to stderr, because stdout is reserved for the records."""
    print(text, file=sys.stderr)
