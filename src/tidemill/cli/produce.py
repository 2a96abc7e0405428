"""`tidemill produce`: send each line of stdin as a record."""

import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from tidemill.cli.argument_bytes import argument_bytes
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
    key: Annotated[str | None, typer.Option(metavar="TEXT", help="The key of every record.")] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header of every record.  Repeatable.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Send to this partition.  Default: chosen by the key.")
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the topic if it does not exist.")] = False,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0.1,
            help="Give up a record that is not acknowledged in this time, and the command if the topic is not found in "
            "this time.",
        ),
    ] = 30.0,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Send one record per line of stdin, with acknowledgement by all in-sync replicas.

    A key goes to the same partition as with Java's producer.  Counts are printed to stderr; the exit code is 1 if a
    record was refused or timed out.

    Examples:

      echo 'hello' | tidemill produce orders --create

      printf 'a:1\\nb:2\\n' | tidemill produce orders --key-separator :

      echo 'paid' | tidemill produce orders --key a --header source=shop --partition 0

      tidemill consume orders --format json | tidemill produce copies --format json --create
    """
    if key_separator is not None and format_ is not Format.TEXT:
        raise usage(f"--key-separator {key_separator!r} requires --format text; json has a field for the key")
    if key_separator == "":
        raise usage("--key-separator '' is empty; write for example --key-separator :")
    if key is not None and key_separator is not None:
        raise usage(f"--key {key!r} and --key-separator {key_separator!r} both set the key; choose one")
    if format_ is Format.JSON and (key is not None or header):
        raise usage("--key and --header require --format text or base64; json has fields for them")
    headers = _headers(header or [])
    address = resolve(bootstrap)

    from tidemill.cli.line_producer import LineProducer  # imported here because the import is slow (decision 12)
    from tidemill.cli.record_line import record_of_line

    separator = argument_bytes(key_separator) if key_separator is not None else None
    same: dict[str, Any] = {}  # the arguments common to all records
    if key is not None:
        same["key"] = argument_bytes(key)
    if headers:
        same["headers"] = headers
    producer = LineProducer(address, topic, partition=partition, create=create, timeout_s=timeout, as_json=as_json)
    interrupted = False
    try:
        for number, line in enumerate(_lines(), 1):
            try:
                record = record_of_line(line, format_, separator)
            except ValueError as error:
                producer.refuse(f"line {number}: {error}")
            else:
                producer.send(record | same, number)
    except KeyboardInterrupt:
        interrupted = True
    producer.flush()
    producer.report()
    if interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if producer.refused_count or producer.timed_out:
        raise typer.Exit(ExitCode.FAILED)


def _headers(texts: Sequence[str]) -> list[tuple[str, bytes]]:
    """
    Return the names and values of the headers.  Names may repeat.  Raise a usage error for a text that is not
    NAME=VALUE.
    """
    headers = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise usage(f"--header {text!r} is not NAME=VALUE; write for example --header source=shop")
        headers.append((name, argument_bytes(value)))
    return headers


def _lines() -> Iterator[bytes]:
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n")
