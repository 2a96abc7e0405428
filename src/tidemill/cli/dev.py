"""`tidemill dev`: run a broker on one directory, or a cluster with one process per broker."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from tidemill.cli.bootstrap import JsonOption
from tidemill.cli.failure import Failed, usage

BROKERS_MAX: Final = 9  # enough for development on one machine
_OPTIONS: Final = {
    "log.dirs=": "--data=",
    "listeners=PLAINTEXT://": "--kafka=",
    "listeners=": "--kafka=",
    "tidemill.http.listener=": "--http=",
}
"""Maps the start of a broker's error about a configuration key to the option of this command that sets the key."""


def register(application: typer.Typer) -> None:
    application.command()(dev)


def dev(
    data: Annotated[str, typer.Option(metavar="DIR", help="The data directory.")] = "./tidemill-data",
    kafka: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where Kafka clients connect; port 0 picks a free one.")
    ] = "127.0.0.1:9092",
    http: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Health, metrics and `cluster status`; port 0 picks a free one.")
    ] = "127.0.0.1:9080",
    brokers: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            max=BROKERS_MAX,
            help="The number of brokers, on DIR/broker-1, DIR/broker-2, …; their ports follow those of the first.",
        ),
    ] = 1,
    as_json: JsonOption = False,
) -> None:
    """
    Run a broker, or a cluster of several, until Ctrl-C.

    With --json, a line on stdout reports when it is ready:
    {"event": "ready", "kafka": "127.0.0.1:PORT", "http": "127.0.0.1:PORT", "peer": "127.0.0.1:PORT", "data": "DIR",
    "pid": N}

    With --brokers, this line is about the first broker and also has "brokers": [{"id": 1, "kafka": …, "http": …,
    "peer": …, "pid": N, "data": "DIR", "command": [arguments that restart this broker]}, …].  A broker that exits is
    reported and not restarted.

    With three brokers or more, a new topic has three replicas, and any one broker may be lost.

    Examples:

      tidemill dev

      tidemill dev --data /tmp/mill --kafka 127.0.0.1:0 --http 127.0.0.1:0 --json

      tidemill dev --brokers 3 --data /tmp/mills
    """
    if brokers == 1:
        if Path(data, "broker-1").is_dir():
            raise usage(
                f"--data={data} has several brokers; use the same --brokers as at its creation, or another --data"
            )
        from tidemill.app.settings import dev_settings
        from tidemill.cli.broker import run_broker

        try:
            run_broker(
                lambda: dev_settings(data=data, kafka=kafka, http=http, environment=os.environ),
                as_json=as_json,
                greet=True,
            )
        except Failed as failed:
            raise Failed(_naming_options(failed.message), exit_code=failed.exit_code) from failed
    else:
        from tidemill.cli.dev_cluster import run_cluster

        run_cluster(brokers, data=data, kafka=kafka, http=http, as_json=as_json)


def _naming_options(message: str) -> str:
    """Return the error message with configuration keys replaced by the command's options that set them."""
    return "\n".join(map(_naming_option, message.split("\n")))


def _naming_option(line: str) -> str:
    text = line.lstrip()
    for key, option in _OPTIONS.items():
        if text.startswith(key):
            return line.removesuffix(text) + option + text.removeprefix(key)
    return line
