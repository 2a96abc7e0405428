"""`tidemill produce`: send each line of stdin as a record."""

import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import typer

from tidemill.cli.bootstrap import BootstrapOption, JsonOption, resolve
from tidemill.cli.failure import ExitCode, usage


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    BASE64 = "base64"


def register(application: typer.Typer) -> None:
    application.command()(produce)


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Separates key and value at its first occurrence in a line.")
    ] = None,
    format_: Annotated[
        Format,
        typer.Option(
            "--format",
            help="text: the line is the value.  json: an object with value, key, headers and timestamp, as printed by "
            "`consume`.  base64: the line is the value in base64.",
        ),
    ] = Format.TEXT,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Send one record per line of stdin, with acknowledgement by all in-sync replicas.

    A key goes to the same partition as with Java's producer.  Counts are printed to stderr; the exit code is 1 if a
    record was refused.

    Examples:

      printf 'a:1\\nb:2\\n' | tidemill produce orders --key-separator :

      tidemill consume orders --format json | tidemill produce copies --format json
    """
    if key_separator is not None and format_ is not Format.TEXT:
        raise usage(f"--key-separator {key_separator!r} requires --format text; json has a field for the key")
    if key_separator == "":
        raise usage("--key-separator '' is empty; write for example --key-separator :")
    address = resolve(bootstrap)

    from tidemill.cli.line_producer import LineProducer  # imported late (decision 12)
    from tidemill.cli.record_line import record_of_line

    separator = key_separator.encode() if key_separator is not None else None
    producer = LineProducer(address, topic, as_json=as_json)
    interrupted = False
    try:
        for number, line in enumerate(_lines(), 1):
            try:
                record = record_of_line(line, format_, separator)
            except ValueError as error:
                producer.refuse(f"line {number}: {error}")
            else:
                producer.send(record, number)
    except KeyboardInterrupt:
        interrupted = True
    producer.flush()
    producer.report()
    if interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if producer.refused_count:
        raise typer.Exit(ExitCode.NO_BROKER if producer.lost_broker else ExitCode.FAILED)


def _lines() -> Iterator[bytes]:
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n")
