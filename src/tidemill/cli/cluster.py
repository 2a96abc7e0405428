"""Show the state of a cluster, as its brokers report it over HTTP.

\b
Examples:
  tidemill cluster status
  tidemill cluster status --once
  tidemill cluster status --http 127.0.0.1:9080,127.0.0.1:9081 --json
"""

from typing import Annotated, Final

import typer

from tidemill.cli.bootstrap import JsonOption
from tidemill.cli.command_group import CommandGroup
from tidemill.cli.failure import ExitCode, Failed
from tidemill.cli.http_option import OTHER_BROKER, HttpOption, check_not_kafka, resolve_http

REFRESH_S: Final = 1.0


def register(application: typer.Typer) -> None:
    cluster = CommandGroup("cluster", __doc__)

    @cluster.callback()
    def _keep_name() -> None:
        """Keep the command's name: without a callback, typer drops the name of a single command."""

    cluster.command()(status)
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

    from tidemill.cli.cluster_view import read_view
    from tidemill.cli.output import pipe_may_close, print_json
    from tidemill.cli.status_tables import print_once, show_live
    from tidemill.client.broker_http import NoResponse, Refused

    addresses = resolve_http(http)
    try:
        if sys.stdout.isatty() and not (once or as_json):
            show_live(addresses, REFRESH_S)
            return
        view = read_view(addresses)
        with pipe_may_close():
            if as_json:
                print_json(view.as_json())
            else:
                print_once(view)
    except NoResponse as problem:
        check_not_kafka(addresses)
        fix = f"{OTHER_BROKER}; `tidemill dev --brokers 3` starts a cluster if there is none"
        raise Failed(f"no broker's HTTP listener at {problem}; {fix}", exit_code=ExitCode.NO_BROKER) from problem
    except Refused as problem:
        raise Failed(str(problem)) from problem
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.DONE) from None
