"""`tidemill consume`: write records to stdout."""

import time
from enum import StrEnum
from typing import Annotated

import typer

from tidemill.cli.bootstrap import BootstrapOption, JsonOption, resolve
from tidemill.cli.failure import ExitCode, usage
from tidemill.cli.start_position import POSITIONS, parse


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


def register(application: typer.Typer) -> None:
    application.command()(consume)


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            metavar=POSITIONS,
            help="Where to start; with --group, only for partitions without a committed offset.",
        ),
    ] = "earliest",
    group: Annotated[str | None, typer.Option(metavar="G", help="Join this group and commit offsets to it.")] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(metavar="N", min=0, help="Read only this partition.  Repeatable; not with --group."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for new records until Ctrl-C.")] = False,
    max_: Annotated[int | None, typer.Option("--max", metavar="N", min=1, help="Stop after N records.")] = None,
    format_: Annotated[
        Format,
        typer.Option("--format", help="text: the value.  json: the whole record.  Both write one record per line."),
    ] = Format.TEXT,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Read records.  Without --follow, stop at the end offsets that the partitions had at the start.

    Examples:

      tidemill consume orders --max 10 --format json

      tidemill consume orders --from time:2026-01-31T08:00:00Z

      tidemill consume orders --from -10m

      tidemill consume orders --partition 0 --from offset:42

      tidemill consume orders --group billing --follow
    """
    position = parse(from_, option="--from", now_ms=round(time.time() * 1000))
    if group is not None and partition:
        raise usage(f"--partition {partition[0]} cannot be used with --group {group}: the group assigns the partitions")
    address = resolve(bootstrap)

    from tidemill.cli.output import pipe_may_close
    from tidemill.cli.record_printer import RecordPrinter  # imported here because the import is slow (decision 12)

    format_ = Format.JSON if as_json else format_
    printer = RecordPrinter(
        address,
        topic,
        position,
        partitions=partition or (),
        group=group,
        follow=follow,
        count_max=max_,
        as_json=format_ == "json",
    )
    try:
        with pipe_may_close():
            printer.run()
    except KeyboardInterrupt:
        # Ctrl-C is the normal end of a command with `--follow`; without `--follow`, it is an interruption.
        raise typer.Exit(ExitCode.DONE if follow else ExitCode.INTERRUPTED) from None
