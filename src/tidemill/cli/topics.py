"""Create, list, describe, alter and delete topics."""

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidemill.cli.bootstrap import BootstrapOption, JsonOption, resolve
from tidemill.cli.failure import usage

if TYPE_CHECKING:
    from tidemill.cli.topic_admin import TopicAdmin

ConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config", metavar="KEY=VALUE", help="A topic configuration, for example retention.ms=-1.  Repeatable."
    ),
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
NamesArgument = Annotated[list[str], typer.Argument(metavar="NAME…", show_default=False)]

VISIBLE_WAIT_S: Final = 5.0  # a broker may know a new topic a little later than the controller


def register(application: typer.Typer) -> None:
    topics = typer.Typer(
        name="topics", help=__doc__, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    for command in (create, list_topics, describe, alter, delete):
        topics.command(name="list" if command is list_topics else command.__name__)(command)
    application.add_typer(topics)


def _admin(bootstrap: str | None) -> "TopicAdmin":
    address = resolve(bootstrap)  # Report usage errors before importing the library and connecting.

    from tidemill.cli.topic_admin import TopicAdmin  # imported late (decision 12)

    return TopicAdmin(address)


def _parsed(configs: list[str] | None) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in configs or []:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise usage(f"--config {text!r} is not KEY=VALUE; write for example --config retention.ms=86400000")
        if key in pairs:
            raise usage(f"--config {key} is given twice ({pairs[key]!r} and {value!r}); give it once")
        pairs[key] = value
    return pairs


def create(
    name: NameArgument,
    partitions: Annotated[int | None, typer.Option(min=1, help="Default: the broker's num.partitions.")] = None,
    replication_factor: Annotated[
        int | None, typer.Option(min=1, max=32767, help="Default: the broker's default.replication.factor.")
    ] = None,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Create a topic.

    Example: tidemill topics create flights --partitions 6 --config retention.ms=-1
    """
    from tidemill.cli.output import print_json

    configs = _parsed(config)
    admin = _admin(bootstrap)
    admin.create(name, partitions, replication_factor, configs)
    row = _visible(admin, name)
    if as_json:
        print_json(row)
    else:
        print(f"created {name}: partitions {row['partitions']}, replication factor {row['replication_factor']}")


def _visible(admin: "TopicAdmin", name: str) -> dict[str, Any]:
    """Wait until the broker knows the new topic, and return the topic's row."""
    deadline = time.monotonic() + VISIBLE_WAIT_S
    while True:
        rows = admin.rows_of([name], missing_is_failure=time.monotonic() > deadline)
        if rows:
            return rows[0]
        time.sleep(0.05)


def list_topics(
    internal: Annotated[bool, typer.Option("--internal/--no-internal", help="Include internal topics.")] = True,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    List topics with their ids, partition counts and replication factors.

    Example: tidemill topics list --json
    """
    from tidemill.cli.output import pipe_may_close, print_json, print_table

    rows = [row for row in _admin(bootstrap).rows() if internal or not row["internal"]]
    with pipe_may_close():
        if as_json:
            for row in rows:
                print_json(row)
        else:
            columns = ("topic", "topic_id", "partitions", "replication_factor", "internal")
            print_table(columns, ([row[column] for column in columns] for row in rows))


def describe(names: NamesArgument, bootstrap: BootstrapOption = None, as_json: JsonOption = False) -> None:
    """
    Show the configurations of topics, and the leader, epoch and offsets of each partition.

    Example: tidemill topics describe flights
    """
    from tidemill.cli.output import pipe_may_close, print_json, print_table

    rows = _admin(bootstrap).descriptions_of(names)
    with pipe_may_close():
        for row in rows:
            if as_json:
                print_json(row)
                continue
            print(f"topic               {row['topic']}")
            print(f"topic id            {row['topic_id']}")
            print(f"partitions          {len(row['partitions'])}")
            print(f"replication factor  {row['replication_factor']}")
            print(f"internal            {row['internal']}")
            columns = ("partition", "leader", "epoch", "log_start", "end_offset")
            print_table(columns, ([part[column] for column in columns] for part in row["partitions"]))
            print_table(("config", "value"), sorted(row["configs"].items()))


def alter(
    name: NameArgument,
    partitions: Annotated[int | None, typer.Option(min=1, help="The new, larger number of partitions.")] = None,
    config: ConfigOption = None,
    delete_config: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Reset to the broker's default.  Repeatable.")
    ] = None,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Change a topic's configuration or add partitions.

    Example: tidemill topics alter flights --partitions 12 --config retention.ms=86400000
    """
    from tidemill.cli.output import print_json

    configs, deletions = _parsed(config), delete_config or []
    if not (configs or deletions or partitions):
        raise usage("topics alter: nothing to change; give --partitions, --config KEY=VALUE or --delete-config KEY")
    if both := sorted(configs.keys() & set(deletions)):
        raise usage(f"{both[0]} is in both --config and --delete-config; choose one")
    admin = _admin(bootstrap)
    if configs or deletions:
        admin.alter_configs(name, configs, deletions)
    if partitions:
        admin.grow(name, partitions)
    if as_json:
        print_json({"topic": name, "partitions": partitions, "configs": configs, "deleted_configs": deletions})
    else:
        print(f"altered {name}")


def delete(names: NamesArgument, bootstrap: BootstrapOption = None, as_json: JsonOption = False) -> None:
    """
    Delete topics with all their records, irrevocably.

    Example: tidemill topics delete flights
    """
    from tidemill.cli.output import print_json

    admin = _admin(bootstrap)
    for name in names:
        admin.delete(name)
        if as_json:
            print_json({"topic": name, "deleted": True})
        else:
            print(f"deleted {name}")
