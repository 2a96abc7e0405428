"""Look into share groups, and receive and acknowledge their records one by one.

\b
Examples:
  tidemill queue receive jobs workers --as me --max 3
  tidemill queue ack jobs workers --as me --all
  tidemill queue peek jobs workers
  tidemill queue stats jobs workers
"""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidemill.cli.bootstrap import BootstrapOption, JsonOption, resolve
from tidemill.cli.command_group import CommandGroup
from tidemill.cli.confirmation import YesOption, confirm
from tidemill.cli.duration import DURATIONS, duration_ms
from tidemill.cli.failure import ExitCode, usage
from tidemill.model.duration import shown

if TYPE_CHECKING:
    from tidemill.cli.queue_admin import QueueAdmin

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
PartitionOption = Annotated[
    int | None, typer.Option(metavar="P", min=0, help="Only this partition.", show_default=False)
]
DAY_MS: Final = 86_400_000
COLUMNS: Final = (
    "partition",
    "start",
    "end",
    "available",
    "delayed",
    "held",
    "dead waiting",
    "expired unread",
    "oldest age",
    "blocked by",
)


def register(application: typer.Typer) -> None:
    queue = CommandGroup("queue", __doc__)
    for command in (stats, peek, receive, ack):
        queue.command()(command)
    application.add_typer(queue)


def _admin(bootstrap: str | None, topic: str, group: str) -> "QueueAdmin":
    for name, value in (("TOPIC", topic), ("GROUP", group)):
        if not value:
            raise usage(f"{name} is empty")
    address = resolve(bootstrap)  # Report usage errors before connecting.

    from tidemill.cli.queue_admin import QueueAdmin  # imported here because the import is slow (decision 12)

    return QueueAdmin(address, topic, group)


def stats(
    topic: TopicArgument,
    group: GroupArgument,
    watch: Annotated[bool, typer.Option("--watch", help="Update the table every second until Ctrl-C.")] = False,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Show how far a share group has processed each partition of a topic.

    start is the first offset that is not finished; available, delayed, held and dead waiting count the offsets from
    there to the end that are not finished.  A dash means that the group has not read the partition.

    Example: tidemill queue stats jobs workers --json
    """
    admin = _admin(bootstrap, topic, group)

    from tidemill.cli.output import pipe_may_close

    partitions = admin.partitions(None)
    try:
        if watch and not as_json and sys.stdout.isatty():
            _watch(admin, partitions)
        with pipe_may_close():
            while True:
                _print_stats(admin, partitions, as_json=as_json)
                if not watch:
                    return
                sys.stdout.flush()
                time.sleep(1)
    except KeyboardInterrupt:
        # Ctrl-C is the normal end of --watch; otherwise it is an interruption.
        raise typer.Exit(ExitCode.DONE if watch else ExitCode.INTERRUPTED) from None


def _stats_rows(admin: "QueueAdmin", partitions: list[int]) -> list[dict[str, Any]]:
    from tidemill.cli.queue_admin import state_row

    now_ms = round(time.time() * 1_000)
    return [state_row(admin, state, now_ms) for state in admin.states(partitions)]


def _stats_cells(row: dict[str, Any]) -> list[object]:
    age_ms = row["oldest_age_ms"]
    if row["start"] is None:
        return [row["partition"], None, row["end"], *[None] * (len(COLUMNS) - 3)]
    numbers = [row[name] for name in ("available", "delayed", "held", "dead_waiting", "expired_unread")]
    age = None if age_ms is None else shown(age_ms // 1_000 * 1_000) if age_ms >= 1_000 else "0s"
    return [row["partition"], row["start"], row["end"], *numbers, age, row["blocked_by"]]


def _print_stats(admin: "QueueAdmin", partitions: list[int], *, as_json: bool) -> None:
    from tidemill.cli.output import print_json, print_table

    rows = _stats_rows(admin, partitions)
    if as_json:
        for row in rows:
            print_json(row)
        return
    print_table(COLUMNS, [_stats_cells(row) for row in rows])
    if all(row["start"] is None for row in rows):
        _note(f"group {admin.group!r} has not read topic {admin.topic!r}; `tidemill groups list` lists the groups")


def _watch(admin: "QueueAdmin", partitions: list[int]) -> None:
    """Update the table on a terminal until Ctrl-C."""
    from rich.live import Live  # imported here because the import is slow (decision 12)

    from tidemill.cli.output import table_of

    def table() -> Any:
        rows = [_stats_cells(row) for row in _stats_rows(admin, partitions)]
        return table_of(COLUMNS, rows, title=f"Group {admin.group}, topic {admin.topic}")

    with Live(table(), auto_refresh=False) as live:
        while True:
            time.sleep(1)
            live.update(table(), refresh=True)


def peek(
    topic: TopicArgument,
    group: GroupArgument,
    max_: Annotated[int, typer.Option("--max", metavar="N", min=1, help="Stop after N records.")] = 10,
    partition: PartitionOption = None,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Show the next records of a share group without acquiring them.

    Reads each partition from the group's first record that is not finished.  Records behind it are shown even if they
    are held, delayed or finished already.

    Example: tidemill queue peek jobs workers --max 3 --json
    """
    admin = _admin(bootstrap, topic, group)

    from tidemill.cli.output import pipe_may_close, print_json, print_table
    from tidemill.cli.queue_records import RECORD_COLUMNS, record_cells
    from tidemill.cli.record_json import row_as_json

    found = admin.peek(admin.read_states(admin.partitions(partition)), max_)
    with pipe_may_close():
        if as_json:
            for number, record, is_log_append_time in found:
                print_json(row_as_json(topic, number, record, is_log_append_time=is_log_append_time))
        else:
            rows = [[number, record.offset, *record_cells(record)] for number, record, _ in found]
            print_table(("partition", "offset", *RECORD_COLUMNS), rows)


def receive(
    topic: TopicArgument,
    group: GroupArgument,
    name: Annotated[
        str, typer.Option("--as", metavar="NAME", help="The name of the consumer, which holds the records.")
    ],
    max_: Annotated[int, typer.Option("--max", metavar="N", min=1, help="Acquire at most N records.")] = 1,
    wait: Annotated[str, typer.Option(metavar=DURATIONS, help="How long to wait for a record.")] = "0s",
    partition: PartitionOption = None,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Acquire records for a consumer, and show them.

    The consumer holds the records until it acknowledges them with `queue ack`, or until their locks end.  A consumer
    that holds records of a partition gets these again, with new locks, and no others of that partition.  Partitions are
    asked in the order of their numbers.  A group that does not exist is created.

    \b
    Examples:
      tidemill queue receive jobs workers --as me --max 100
      tidemill queue receive jobs workers --as me --wait 30s --json
    """
    wait_ms = duration_ms(wait, option="--wait", at_most_ms=DAY_MS)
    _check_name(name)
    admin = _admin(bootstrap, topic, group)

    from tidemill.cli.output import pipe_may_close, print_json, print_table
    from tidemill.cli.queue_records import RECORD_COLUMNS, moment, record_cells
    from tidemill.cli.record_json import row_as_json

    try:
        held = admin.receive(name, admin.partitions(partition), max_, wait_ms)
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    with pipe_may_close():
        if as_json:
            for number, (record, attempt, is_log_append_time), until_ms in held:
                row = row_as_json(topic, number, record, is_log_append_time=is_log_append_time)
                print_json(row | {"attempt": attempt, "locked_until_ms": until_ms})
            return
        if not held:
            _note(_why_nothing(admin, partition, name))
            return
        rows = [
            [number, record.offset, attempt, moment(until_ms), *record_cells(record)]
            for number, (record, attempt, _), until_ms in held
        ]
        print_table(("partition", "offset", "attempt", "locked until", *RECORD_COLUMNS), rows)


def _why_nothing(admin: "QueueAdmin", partition: int | None, name: str) -> str:
    """Say why a consumer has received no record."""
    states = admin.states(admin.partitions(partition))
    for state in states:
        if state.available and state.blocked_by is not None:
            return f"partition {state.partition.partition} has available records, but {state.blocked_by}"
    if admin.is_exclusive and any(state.available for state in states):
        return (
            f"some records are available, but not to {name!r}: with tidemill.share.mode=exclusive, only the active "
            "consumer of a partition receives; --wait 30s waits"
        )
    return "no records are available; --wait 30s waits for some, `tidemill queue stats` shows what is held"


def ack(
    topic: TopicArgument,
    group: GroupArgument,
    name: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="NAME",
            help="The consumer that holds the records.  Without it: records that no consumer holds.",
            show_default=False,
        ),
    ] = None,
    partition: PartitionOption = None,
    offset: Annotated[
        str | None, typer.Option(metavar="N|N-M", help="An offset, or offsets including the last.", show_default=False)
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="All records, of all partitions or one.")] = False,
    release: Annotated[bool, typer.Option("--release", help="Make the records available again.")] = False,
    delay: Annotated[
        str | None,
        typer.Option(
            metavar=DURATIONS,
            help="With --release: when they are available again.  Default: the group's back-off; as operator, at once.",
            show_default=False,
        ),
    ] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Give the records up: dead letters, if configured.")] = False,
    renew: Annotated[bool, typer.Option("--renew", help="Begin the locks anew.")] = False,
    yes: YesOption = False,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Acknowledge records: as processed, or with --release, --reject or --renew.

    With --as, the records that this consumer holds; the command fails if it does not hold one of them any more.
    Without --as, an operator decides about records that no consumer holds: a released record keeps its number of
    attempts.  Repeating the command is safe.

    \b
    Examples:
      tidemill queue ack jobs workers --as me --partition 0 --offset 42
      tidemill queue ack jobs workers --as me --all --release --delay 10m
      tidemill queue ack jobs workers --partition 0 --offset 42-99 --reject
    """
    from tidemill.cli.queue_ack import Choice, acknowledge, kind_of, offsets_of

    kind = kind_of(release=release, reject=reject, renew=renew, name=name)
    if name is not None:
        _check_name(name)
    if (offset is None) != all_:
        raise usage("give either --offset N, with --partition P, or --all")
    if offset is not None and partition is None:
        raise usage(f"--offset {offset} needs --partition P: offsets are numbers within a partition")
    if delay is not None and not release:
        raise usage(f"--delay {delay} needs --release")
    delay_ms = None if delay is None else duration_ms(delay, option="--delay", at_most_ms=7 * DAY_MS)
    offsets = None if offset is None else offsets_of(offset)
    admin = _admin(bootstrap, topic, group)
    states = admin.read_states(admin.partitions(partition))
    if all_ and name is None:
        confirm(
            f"{kind.name.capitalize()} all records of {topic} that no consumer of {group} holds?",
            is_sure=yes,
            otherwise="nothing was changed",
        )
    acknowledge(admin, states, Choice(kind, name or "", offsets, delay_ms), as_json=as_json)


def _check_name(name: str) -> None:
    if not name:
        raise usage("--as is empty: give the consumer a name")


def _note(text: str) -> None:
    """Print to stderr, because stdout is reserved for the records."""
    print(text, file=sys.stderr)
