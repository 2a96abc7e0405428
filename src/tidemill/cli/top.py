"""`tidemill top`: what a cluster is doing right now."""

from typing import Annotated

import typer

from tidemill.cli.bootstrap import BootstrapOption, JsonOption, resolve
from tidemill.cli.failure import ExitCode, Failed
from tidemill.cli.http_option import OTHER_BROKER, HttpOption, check_not_kafka, resolve_http


def register(application: typer.Typer) -> None:
    application.command()(top)


def top(
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, max=3600, help="How long a rate is measured.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Show the rates of one interval, even on a terminal.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Include internal topics.")] = False,
    bootstrap: BootstrapOption = None,
    http: HttpOption = None,
    as_json: JsonOption = False,
) -> None:
    """
    Show the rates of brokers, topics and groups.

    On a terminal the tables are updated until Ctrl-C; into a pipe and with --json they are printed once.  Records and
    lag are read from the Kafka port, so they are shown for any Kafka broker.  Bytes, requests and the journal are read
    from the brokers' HTTP listeners, which the command finds through the first address in --http that responds.

    Examples:

      tidemill top

      tidemill top --interval 5 --http 127.0.0.1:9081

      tidemill top --json | jq '.groups[] | select(.lag > 1000)'
    """
    import os
    import sys
    import time

    address, http_addresses = resolve(bootstrap), resolve_http(http)

    from tidemill.cli.output import pipe_may_close, print_json
    from tidemill.cli.top_rates import view_of
    from tidemill.cli.top_sample import Sampler  # imported here because the import is slow (decision 12)
    from tidemill.cli.top_tables import print_once, show_live
    from tidemill.client.broker_http import NoResponse

    is_live = sys.stdout.isatty() and not (once or as_json)
    is_http_given = http is not None or bool(os.environ.get("TIDEMILL_HTTP"))
    try:
        sampler = Sampler(address, http_addresses, with_internal=all_, is_http_required=is_http_given)
        if is_live:
            show_live(sampler, interval)
            return
        before = sampler.sample()
        time.sleep(interval)
        view = view_of(before, sampler.sample())
    except NoResponse as problem:
        check_not_kafka(http_addresses)
        fix = f"{OTHER_BROKER}, or unset it to do without"
        raise Failed(f"no broker's HTTP listener at {problem}; {fix}", exit_code=ExitCode.NO_BROKER) from problem
    except KeyboardInterrupt:
        # Ctrl-C is the normal end of the live view; otherwise it is an interruption.
        raise typer.Exit(ExitCode.DONE if is_live else ExitCode.INTERRUPTED) from None
    with pipe_may_close():
        if as_json:
            print_json(view)
        else:
            print_once(view)
