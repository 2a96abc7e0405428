"""List, show, count and send back dead letters.

A dead letter is a record that a share group gave up: a consumer rejected it, it was delivered too often, or its time to
live passed.

\b
Examples:
  tidemill dlq list
  tidemill dlq show dlq.orders --max 10
  tidemill dlq stats dlq.orders --where 'age < 7d'
  tidemill dlq redrive dlq.orders --where 'cause = limit and value./region = eu' --dry-run
  tidemill dlq redrive dlq.orders --yes
"""

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidemill.cli.bootstrap import BootstrapOption, JsonOption, resolve
from tidemill.cli.command_group import CommandGroup
from tidemill.cli.confirmation import YesOption
from tidemill.cli.failure import usage

if TYPE_CHECKING:
    from tidemill.cli.dlq_where import Where
    from tidemill.cli.letter_reader import LetterReader

SHOWN_DEFAULT: Final = 100
_A_RATE: Final = re.compile(r"([1-9][0-9]{0,6})(/s)?")

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="CONDITIONS",
        help="FIELD OP VALUE, joined by `and`.  Fields: cause, topic, partition, offset (of the dead record), group, "
        "attempts, age, key, header.NAME, value, value.JSON-pointer.  Operators: = != < <= > >= and ~ (contains).",
    ),
]


def register(application: typer.Typer) -> None:
    dlq = CommandGroup("dlq", __doc__)
    for command in (list_topics, show, stats, redrive):
        dlq.command(name="list" if command is list_topics else command.__name__)(command)
    application.add_typer(dlq)


def _where(text: str | None) -> "Where":
    from tidemill.cli.dlq_where import Where, WhereError, parse

    if text is None:
        return Where()
    try:
        return parse(text)
    except WhereError as error:
        raise usage(f"--where: {error}") from error


@contextmanager
def _reader(address: str, topic: str) -> Iterator["LetterReader"]:
    """Yield a reader of the topic; convert its errors."""
    from tidemill.cli.client_errors import client_errors
    from tidemill.cli.client_session import client_session
    from tidemill.cli.letter_reader import LetterReader

    with client_session(address) as cluster, client_errors(address, f"topic {topic!r}"):
        yield LetterReader(cluster, topic)


def list_topics(bootstrap: BootstrapOption = None, as_json: JsonOption = False) -> None:
    """
    List the topics for dead letters, with the number of letters and the groups that send theirs there.

    These are the topics with errors.deadletterqueue.group.enable=true, and those that a group names in
    errors.deadletterqueue.topic.name.  A topic that does not accept letters is listed, too: the groups keep their dead
    letters until it does.

    Example: tidemill dlq list --json
    """
    address = resolve(bootstrap)

    # Imported here because the imports are slow (decision 12).
    from tidemill.cli import dlq_topics
    from tidemill.cli.client_session import client_session
    from tidemill.cli.config_admin import ConfigAdmin
    from tidemill.cli.output import pipe_may_close, print_json, print_table

    with client_session(address) as cluster:
        rows = dlq_topics.rows(ConfigAdmin(address), cluster, address)
    with pipe_may_close():
        if as_json:
            for row in rows:
                print_json(row)
        else:
            columns = ("topic", "enabled", "partitions", "letters", "groups")
            print_table(columns, [_topic_cells(row) for row in rows])


def _topic_cells(row: dict[str, Any]) -> list[object]:
    enabled = "yes" if row["enabled"] else "no" if row["exists"] else "no such topic"
    return [row["topic"], enabled, row["partitions"], row["letters"], ", ".join(row["groups"]) or "-"]


def show(
    topic: TopicArgument,
    where: WhereOption = None,
    max_: Annotated[int, typer.Option("--max", metavar="N", min=1, help="Stop after N letters.")] = SHOWN_DEFAULT,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Show dead letters: what is known about the dead record, its key, value and headers.

    Letters are shown partition by partition, the oldest first.  Long values are cut; --json has all of them.

    \b
    Examples:
      tidemill dlq show dlq.orders --where 'topic = orders and offset >= 1000' --max 5
      tidemill dlq show dlq.orders --where 'header.code >= 500' --json | jq .value
    """
    conditions, address = _where(where), resolve(bootstrap)

    from tidemill.cli import letter_view
    from tidemill.cli.output import pipe_may_close, print_json

    now_ms, count = round(time.time() * 1000), 0
    with _reader(address, topic) as reader, pipe_may_close():
        for letter in reader.letters():
            if not conditions.selects(letter, now_ms):
                continue
            if count == max_:
                print(f"tidemill: there are more; the first {max_} are shown (--max)", file=sys.stderr)
                break
            count += 1
            if as_json:
                print_json(letter_view.as_json(letter, topic, now_ms))
            else:
                letter_view.print_lines(letter, topic, now_ms, is_first=count == 1)


def stats(
    topic: TopicArgument, where: WhereOption = None, bootstrap: BootstrapOption = None, as_json: JsonOption = False
) -> None:
    """
    Count dead letters by cause, topic, group and hour.

    The topic is that of the dead record.  The hour is that in which the letter was written, in UTC.

    Example: tidemill dlq stats dlq.orders --where 'age < 1d'
    """
    conditions, address = _where(where), resolve(bootstrap)

    from tidemill.cli.letter_stats import LetterStats
    from tidemill.cli.output import pipe_may_close, print_json

    now_ms = round(time.time() * 1000)
    counted = LetterStats()
    with _reader(address, topic) as reader:
        for letter in reader.letters():
            if conditions.selects(letter, now_ms):
                counted.add(letter)
    with pipe_may_close():
        if as_json:
            print_json({"topic": topic, **counted.to_json()})
        else:
            counted.print()


def redrive(
    topic: TopicArgument,
    where: WhereOption = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TOPIC2", help="Send all to this topic, not to their own.")
    ] = None,
    rate: Annotated[str | None, typer.Option(metavar="N/s", help="Send at most N letters a second.")] = None,
    max_: Annotated[
        int | None, typer.Option("--max", metavar="N", min=1, help="Stop after N letters that were not sent before.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only count the letters that would be sent back."),
    ] = False,
    yes: YesOption = False,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Send dead letters back to the topics that they came from.  On a terminal, ask first.

    The letters are those in the topic when the command starts.  Each is written exactly once: what was sent back before
    is not sent again, so the command can be repeated, also after Ctrl-C.  With --to, that counts for each name of a
    topic.  The letters stay in the dead-letter topic until its retention removes them.

    \b
    Examples:
      tidemill dlq redrive dlq.orders --where 'cause = rejected' --dry-run
      tidemill dlq redrive dlq.orders --where 'value./region = eu and age < 2h' --rate 100/s
      tidemill dlq redrive dlq.orders --to orders-again --yes
    """
    conditions, address = _where(where), resolve(bootstrap)
    letters_per_s = _rate(rate)
    if to == topic:
        raise usage(f"--to {to}: that is the dead-letter topic itself; name another one")

    from tidemill.cli.dlq_redrive import RedriveCommand

    command = RedriveCommand(address, topic, to=to, as_json=as_json)
    command.run(conditions, rate=letters_per_s, letters_max=max_, is_dry=dry_run, is_sure=yes)


def _rate(text: str | None) -> int | None:
    if text is None:
        return None
    found = _A_RATE.fullmatch(text)
    if found is None:
        raise usage(f"--rate {text!r}: expected letters a second, 1/s to 9999999/s, for example 100/s")
    return int(found[1])
