"""Show and change a cluster over HTTP: its brokers, its shards, what moves, and its feature level.

\b
Examples:
  tidemill cluster status
  tidemill cluster status --once
  tidemill cluster status --http 127.0.0.1:9080,127.0.0.1:9081 --json
  tidemill cluster brokers
  tidemill cluster rebalance
  tidemill cluster moves
  tidemill cluster upgrade --dry-run
"""

from typing import Annotated, Final

import typer

from tidemill.cli import cluster_brokers, cluster_restart, cluster_shards
from tidemill.cli.bootstrap import JsonOption
from tidemill.cli.command_group import CommandGroup
from tidemill.cli.failure import ExitCode, Failed
from tidemill.cli.http_option import HttpOption, resolve_http

REFRESH_S: Final = 1.0
BROKER_FIELDS: Final = ("broker_id", "is_live", "is_registered", "feature_level")  # in the JSON of `upgrade`


def register(application: typer.Typer) -> None:
    cluster = CommandGroup("cluster", __doc__)
    for command in (status, upgrade):
        cluster.command()(command)
    for commands in (cluster_brokers, cluster_shards, cluster_restart):
        commands.register(cluster)
    application.add_typer(cluster)


def status(
    http: HttpOption = None,
    once: Annotated[bool, typer.Option("--once", help="Show the state once, even on a terminal.")] = False,
    as_json: JsonOption = False,
) -> None:
    """
    Show brokers, what is degraded on them, and shards with their leaders and the lag of replicas.

    On a terminal the tables are updated every second until Ctrl-C.  The command finds the other brokers through the
    first one and asks each broker for the shards that it leads.  With --json it prints one object.

    Examples:

      tidemill cluster status

      tidemill cluster status --http 127.0.0.1:9080,127.0.0.1:9081 --once

      tidemill cluster status --json | jq '.shards[] | select(.state != "ok")'
    """
    import sys

    from tidemill.cli.cluster_http import http_errors
    from tidemill.cli.cluster_view import read_view
    from tidemill.cli.output import pipe_may_close, print_json
    from tidemill.cli.status_tables import print_once, show_live

    addresses = resolve_http(http)
    with http_errors(addresses):
        if sys.stdout.isatty() and not (once or as_json):
            try:
                show_live(addresses, REFRESH_S)
            except KeyboardInterrupt:
                raise typer.Exit(ExitCode.DONE) from None
        view = read_view(addresses)
        with pipe_may_close():
            if as_json:
                print_json(view.as_json())
            else:
                print_once(view)


def upgrade(
    level: Annotated[
        int | None,
        typer.Option("--level", metavar="N", min=1, help="Default: the highest level that a live broker supports."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show whether the level can be raised.")] = False,
    http: HttpOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Raise the feature level of the cluster, after all brokers have been upgraded.

    Until then, brokers can go back to the version that they came from; afterwards, older versions do not start in this
    cluster any more.  Every registered broker must be live and support the level; otherwise, the command shows which
    brokers do not, and fails.  The level is never lowered.

    \b
    Examples:
      tidemill cluster upgrade --dry-run
      tidemill cluster upgrade --http 127.0.0.1:9080,127.0.0.1:9081
    """
    from tidemill.cli.cluster_http import http_errors
    from tidemill.cli.cluster_upgrade import COLUMNS, raise_level, read_levels
    from tidemill.cli.output import pipe_may_close, print_json, print_table
    from tidemill.client.broker_http import NoResponse

    addresses = resolve_http(http)
    with http_errors(addresses):
        address, levels = read_levels(addresses)
        target = levels.newest if level is None else level
        if not as_json:
            print(f"The cluster is at feature level {levels.current}.")
            print_table(COLUMNS, levels.cells(target))
        if target != levels.current:
            try:
                raise_level(address, target, is_dry=dry_run)
            except NoResponse as problem:
                unknown = "whether the level was raised is not known; run the command again"
                raise Failed(f"{problem}: {unknown}", exit_code=ExitCode.NO_BROKER) from problem
    with pipe_may_close():
        if as_json:
            brokers = [{name: row[name] for name in BROKER_FIELDS} for row in levels.brokers]
            print_json({"before": levels.current, "level": target, "dry_run": dry_run, "brokers": brokers})
        elif target == levels.current:
            print("No live broker supports a higher level." if level is None else "Nothing is changed.")
        else:
            print(f"It {'can be' if dry_run else 'was'} raised to {target}.")
