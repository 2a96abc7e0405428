"""Create, list, describe, alter and delete topics.

\b
Examples:
  tidemill topics create orders --partitions 6 --config retention.ms=86400000
  tidemill topics create reminders --kind timer
  tidemill topics list
  tidemill topics describe orders
  tidemill topics alter orders --partitions 12 --delete-config retention.ms
  tidemill topics delete orders
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.bootstrap import BootstrapOption, JsonOption, resolve
from tidemill.cli.command_group import CommandGroup
from tidemill.cli.config_pairs import parse_pairs
from tidemill.cli.confirmation import YesOption, confirm
from tidemill.cli.failure import usage
from tidemill.model.topic_kind import KIND, TopicKind

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


class Kind(StrEnum):
    """The kinds of topics that can be created."""

    LOG = TopicKind.LOG
    TIMER = TopicKind.TIMER


def register(application: typer.Typer) -> None:
    topics = CommandGroup("topics", __doc__)
    for command in (create, list_topics, describe, alter, delete):
        topics.command(name="list" if command is list_topics else command.__name__)(command)
    application.add_typer(topics)


def _admin(bootstrap: str | None) -> "TopicAdmin":
    address = resolve(bootstrap)  # Report usage errors before importing confluent-kafka and connecting.

    from tidemill.cli.topic_admin import TopicAdmin  # imported here because the import is slow (decision 12)

    return TopicAdmin(address)


def _print_notes(bootstrap: str | None, name: str, keys: list[str], *, as_json: bool, is_new: bool) -> None:
    """Print a note to stderr for each of `keys` that the broker has accepted without effect."""
    if not keys:
        return

    # Imported here because the import is slow (decision 12).
    from tidemill.cli.config_admin import TOPIC, ConfigAdmin, Resource
    from tidemill.cli.config_notes import print_notes

    print_notes(ConfigAdmin(resolve(bootstrap)), Resource(TOPIC, name), keys, as_json=as_json, is_new=is_new)


def create(
    name: NameArgument,
    partitions: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Default: the broker's num.partitions.")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=32767, help="Default: the broker's default.replication.factor."),
    ] = None,
    kind: Annotated[
        Kind | None,
        typer.Option(
            help="timer: each record is delivered when it is due.  log, the default: at once.  It cannot change later."
        ),
    ] = None,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Create a topic.

    Example: tidemill topics create flights --partitions 6 --config retention.ms=-1
    """
    from tidemill.cli.output import counted, print_json

    configs = parse_pairs(config or [], prefix="--config ")
    if kind is not None:
        if KIND in configs:
            raise usage(f"--kind {kind} and --config {KIND}={configs[KIND]} are the same; give one of them")
        configs[KIND] = kind
    admin = _admin(bootstrap)
    admin.create(name, partitions, replication_factor, configs)
    row = admin.row_of_new(name)
    if as_json:
        print_json(row)
    else:
        replicas = f"replication factor {row['replication_factor']}"
        print(f"created {name}: {counted(row['partitions'], 'partition')}, {replicas}")
    _print_notes(bootstrap, name, [*configs], as_json=as_json, is_new=True)


def list_topics(
    all_: Annotated[bool, typer.Option("--all", help="Include internal topics.")] = False,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    List topics with their ids, partition counts and replication factors.

    Example: tidemill topics list --json
    """
    from tidemill.cli.output import pipe_may_close, print_json, print_table

    rows = [row for row in _admin(bootstrap).rows() if all_ or not row["internal"]]
    with pipe_may_close():
        if as_json:
            for row in rows:
                print_json(row)
        else:
            columns = ("topic", "topic_id", "partitions", "replication_factor", *(["internal"] if all_ else []))
            shown = [row | {"internal": "yes" if row["internal"] else "no"} for row in rows]
            print_table(columns, [[row[column] for column in columns] for row in shown])


def describe(
    names: NamesArgument,
    all_: Annotated[bool, typer.Option("--all", help="Include configurations that have their default values.")] = False,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Show replicas, offsets and the configurations that differ from the defaults.

    Example: tidemill topics describe flights
    """
    from tidemill.cli.output import pipe_may_close, print_fields, print_json, print_table

    rows = _admin(bootstrap).descriptions_of(names, with_defaults=all_)
    with pipe_may_close():
        for row in rows:
            if as_json:
                print_json(row)
                continue
            print_fields(
                {
                    "topic": row["topic"],
                    "topic id": row["topic_id"],
                    **({} if row["kind"] is None else {"kind": row["kind"]}),
                    "partitions": len(row["partitions"]),
                    "replication factor": row["replication_factor"],
                    "internal": "yes" if row["internal"] else "no",
                }
            )
            columns = ("partition", "leader", "replicas", "in_sync", "epoch", "log_start", "end_offset")
            shown = [
                it | {"replicas": _joined(it["replicas"]), "in_sync": _joined(it["in_sync"])}
                for it in row["partitions"]
            ]
            print_table(columns, [[it[column] for column in columns] for it in shown])
            if row["configs"]:
                print_table(("config", "value"), list(row["configs"].items()))
            else:
                print("every configuration has its default value; --all shows them")


def _joined(broker_ids: list[int]) -> str:
    return ",".join(map(str, broker_ids)) or "-"


def alter(
    name: NameArgument,
    partitions: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The new, larger number of partitions.")
    ] = None,
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

    configs, deletions = parse_pairs(config or [], prefix="--config "), delete_config or []
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
    _print_notes(bootstrap, name, [*configs], as_json=as_json, is_new=False)


def delete(
    names: NamesArgument, yes: YesOption = False, bootstrap: BootstrapOption = None, as_json: JsonOption = False
) -> None:
    """
    Delete topics with all their records, irrevocably.  On a terminal, ask first.

    Example: tidemill topics delete flights --yes
    """
    from tidemill.cli.output import counted, print_json

    admin = _admin(bootstrap)
    names = list(dict.fromkeys(names))
    partitions = sum(row["partitions"] for row in admin.rows_of(names, missing_is_failure=True))
    question = f"Delete {', '.join(names)} ({counted(partitions, 'partition')}) with all records?"
    confirm(question, is_sure=yes)
    for name in names:
        admin.delete(name)
        if as_json:
            print_json({"topic": name, "deleted": True})
        else:
            print(f"deleted {name}")
