"""Describe, set and unset configurations of topics, groups and brokers.

\b
Examples:
  tidemill configs describe --topic orders
  tidemill configs set --topic orders retention.ms=86400000
  tidemill configs unset --topic orders retention.ms
  tidemill configs describe --broker 1 --all
  tidemill configs set --group workers share.delivery.count.limit=3
  tidemill configs set --cluster log.retention.ms=604800000
"""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidemill.cli.bootstrap import BootstrapOption, JsonOption, resolve
from tidemill.cli.command_group import CommandGroup
from tidemill.cli.config_pairs import parse_pairs
from tidemill.cli.failure import Failed, usage

if TYPE_CHECKING:
    from tidemill.cli.config_admin import ConfigAdmin, Resource

TopicOption = Annotated[str | None, typer.Option("--topic", metavar="T", help="A topic.")]
GroupOption = Annotated[
    str | None, typer.Option("--group", metavar="G", help="A group; share groups have configurations.")
]
BrokerOption = Annotated[int | None, typer.Option("--broker", metavar="N", min=0, help="The broker with this id.")]
ClusterOption = Annotated[
    bool, typer.Option("--cluster", help="The defaults of all brokers, which a broker's own value overrides.")
]

SOURCES: Final = {
    "DYNAMIC_TOPIC_CONFIG": "topic",
    "DYNAMIC_GROUP_CONFIG": "group",
    "DYNAMIC_BROKER_CONFIG": "broker",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "cluster",
    "STATIC_BROKER_CONFIG": "broker's start",
    "DEFAULT_CONFIG": "default",
}
"""The names that tables show for Kafka's configuration sources, which say where a value was set."""


def register(application: typer.Typer) -> None:
    configs = CommandGroup("configs", __doc__)
    for command in (describe, set_, unset):
        configs.command(name=command.__name__.rstrip("_"))(command)
    application.add_typer(configs)


def _opened(
    bootstrap: str | None, topic: str | None, group: str | None, broker: int | None, cluster: bool
) -> tuple["ConfigAdmin", "Resource"]:
    address = resolve(bootstrap)
    if sum(named is not None for named in (topic, group, broker)) + cluster != 1:
        raise usage("give one of --topic T, --group G, --broker N and --cluster")

    # Imported here because the import is slow (decision 12).
    from tidemill.cli.config_admin import BROKER, GROUP, TOPIC, ConfigAdmin, Resource

    if topic is not None:
        resource = Resource(TOPIC, topic)
    elif group is not None:
        resource = Resource(GROUP, group)
    else:
        resource = Resource(BROKER, "" if broker is None else str(broker))
    return ConfigAdmin(address), resource


def _named(resource: "Resource") -> dict[str, Any]:
    """Return the JSON fields that identify the resource."""
    kind = resource.about.split()[0]
    return {"resource": "cluster", "name": None} if kind == "the" else {"resource": kind, "name": resource.name}


def describe(
    keys: Annotated[list[str] | None, typer.Argument(metavar="[KEY]…", show_default=False)] = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    broker: BrokerOption = None,
    cluster: ClusterOption = False,
    all_: Annotated[bool, typer.Option("--all", help="Include configurations that have their default values.")] = False,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Show values, where they were set, and what applies if they are unset.

    Without keys, show the configurations whose value is not the default.  For --cluster, the last column is the
    default, because each broker may have been started with another value.

    \b
    Examples:
      tidemill configs describe --topic orders retention.ms
      tidemill configs describe --broker 1
    """
    from tidemill.cli.output import pipe_may_close, print_json, print_table

    admin, resource = _opened(bootstrap, topic, group, broker, cluster)
    rows = admin.rows(resource, keys or None)
    missing = sorted({*(keys or ())} - {row["key"] for row in rows})
    if missing:
        raise Failed(
            f"{resource.about} has no configuration {missing[0]!r}; `tidemill configs describe --all` lists all"
        )
    if not (all_ or keys):
        rows = [row for row in rows if row["source"] != "DEFAULT_CONFIG" and not row["is_set_by_another_key"]]
    with pipe_may_close():
        if as_json:
            print_json(_named(resource) | {"configs": rows})
        elif rows:
            columns = ("config", "value", "source", "default" if cluster else "if unset")
            print_table(columns, [_cells(row, "default" if cluster else "if_unset") for row in rows])
        elif cluster:
            print("no default of the cluster is set")
        else:
            print(f"every configuration of {resource.about} has its default value; --all shows them")


def _cells(row: dict[str, Any], last_column: str) -> list[object]:
    value = "(hidden)" if row["sensitive"] else row["value"]
    source = SOURCES.get(row["source"], row["source"])
    if row["is_set_by_another_key"] and row["source"] != "DEFAULT_CONFIG":
        source = f"{source}, by {row['levels'][0]['key']}"
    return [row["key"], value, source, row[last_column]]


def set_(
    pairs: Annotated[list[str], typer.Argument(metavar="KEY=VALUE…", show_default=False)],
    topic: TopicOption = None,
    group: GroupOption = None,
    broker: BrokerOption = None,
    cluster: ClusterOption = False,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Set configurations; other keys keep their values.

    \b
    Examples:
      tidemill configs set --topic orders retention.ms=86400000 max.message.bytes=2000000
      tidemill configs set --broker 1 log.retention.ms=86400000
    """
    values = parse_pairs(pairs)
    _alter(*_opened(bootstrap, topic, group, broker, cluster), dict(values), as_json=as_json)


def unset(
    keys: Annotated[list[str], typer.Argument(metavar="KEY…", show_default=False)],
    topic: TopicOption = None,
    group: GroupOption = None,
    broker: BrokerOption = None,
    cluster: ClusterOption = False,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Remove values, so that a lower level or the default applies.

    The levels are: topic or group, broker, cluster, broker's start, default.

    Example: tidemill configs unset --topic orders retention.ms
    """
    _alter(*_opened(bootstrap, topic, group, broker, cluster), dict.fromkeys(keys), as_json=as_json)


def _alter(admin: "ConfigAdmin", resource: "Resource", changes: dict[str, str | None], *, as_json: bool) -> None:
    from tidemill.cli.config_notes import print_notes
    from tidemill.cli.output import print_json

    admin.alter(resource, changes)
    given = [key for key, value in changes.items() if value is not None]
    print_notes(admin, resource, given, as_json=as_json, is_new=False)
    if as_json:
        print_json(_named(resource) | {"changes": changes})
        return
    for key, value in changes.items():
        print(f"unset {key} of {resource.about}" if value is None else f"set {key}={value} of {resource.about}")
