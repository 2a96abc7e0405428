"""`tidemill broker`: run a broker with a configuration file."""

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.bootstrap import JsonOption
from tidemill.cli.failure import Failed, usage

if TYPE_CHECKING:
    from tidemill.app.settings import Settings


def register(application: typer.Typer) -> None:
    application.command()(broker)


def broker(
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="A YAML file of Kafka's keys, not nested.", show_default=False)
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Overrides the file and the environment.  Repeatable."),
    ] = None,
    list_config: Annotated[
        bool, typer.Option("--list-config", help="List all keys with types, defaults and meanings; run no broker.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """
    Run a broker until SIGINT or SIGTERM, with one line per event on stderr.

    Environment variables override the file: TIDEMILL_SET_LOG_DIRS sets log.dirs, and so on.

    Example of a FILE:

      broker.id: 1

      log.dirs: /var/lib/tidemill

      listeners: PLAINTEXT://127.0.0.1:9092

    Examples:

      tidemill broker --config broker.yaml --set num.partitions=12

      tidemill broker --set log.dirs=/tmp/mill --set listeners=PLAINTEXT://127.0.0.1:0 --json

      tidemill broker --list-config | grep retention
    """
    if list_config:
        from tidemill.cli.config_list import print_config_keys

        print_config_keys(as_json=as_json)
        return

    from tidemill.app.settings import settings_from

    run_broker(
        lambda: settings_from(file=config, environment=os.environ, sets=set_ or []), as_json=as_json, greet=False
    )


def run_broker(read_settings: "Callable[[], Settings]", *, as_json: bool, greet: bool) -> None:
    """
    Run a broker and return when it has stopped.  If `as_json` or `greet` is set, print a line when it is ready.

    Raise a usage error for invalid settings and for the directory of another broker or cluster, and `Failed` if a port
    or the directory cannot be used.
    """
    from tidemill.app.listeners import SettingRefused

    try:
        settings = read_settings()
    except SettingRefused as refused:
        raise usage(str(refused)) from refused

    from tidemill.app.start import Ready, run
    from tidemill.app.start_problem import SettingProblem, StartProblem

    def ready(addresses: Ready) -> None:
        if as_json:
            print(json.dumps({"event": "ready", **addresses._asdict(), "pid": os.getpid()}), flush=True)
        elif greet:
            where = f"Kafka at {addresses.kafka}, console at http://{addresses.http}/, peers at {addresses.peer}"
            print(f"Tidemill is ready: {where}, data in {addresses.data}")
            print(f"Try:  tidemill topics list --bootstrap {addresses.kafka}      Press Ctrl-C to stop it.", flush=True)

    try:
        run(settings, ready=ready, as_json=as_json)
    except SettingProblem as problem:
        raise usage(str(problem)) from problem
    except StartProblem as problem:
        raise Failed(str(problem)) from problem
