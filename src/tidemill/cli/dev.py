"""`tidemill dev`: a whole broker in one process, on one directory."""

import os
from typing import Annotated

import typer

from tidemill.cli.bootstrap import JsonOption


def register(application: typer.Typer) -> None:
    application.command()(dev)


def dev(
    data: Annotated[str, typer.Option(metavar="DIR", help="Where records are kept.")] = "./tidemill-data",
    kafka: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where Kafka clients connect; port 0 picks a free one.")
    ] = "127.0.0.1:9092",
    http: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Health and metrics; port 0 picks a free one.")
    ] = "127.0.0.1:9080",
    as_json: JsonOption = False,
) -> None:
    """
    Run a broker here, until Ctrl-C.

    Under --json one line on stdout tells when it is ready:
    {"event": "ready", "kafka": "127.0.0.1:PORT", "http": "127.0.0.1:PORT", "data": "DIR", "pid": N}

    Examples:

      tidemill dev

      tidemill dev --data /tmp/mill --kafka 127.0.0.1:0 --http 127.0.0.1:0 --json
    """
    from tidemill.app.settings import dev_settings
    from tidemill.cli.broker import run_broker

    run_broker(
        lambda: dev_settings(data=data, kafka=kafka, http=http, environment=os.environ), as_json=as_json, greet=True
    )
