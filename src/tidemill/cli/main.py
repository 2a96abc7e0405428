"""`tidemill`: find the command that was named, import only that, run it, and turn its failure into an exit code.

Exit codes: 0 done, 1 failed, 2 usage, 3 no broker.
"""

import sys
from importlib import import_module
from typing import Final

import typer

from tidemill.cli.failure import Failed

COMMANDS: Final = ("dev", "broker", "topics", "produce", "consume", "log")
"""Command → the module of that name beside this one; each has `register(application)`.  In the order of `--help`."""

ABOUT: Final = """A message queue that speaks Kafka, with a data pipeline on Spark.

Examples, in two terminals:

  tidemill dev     (a whole broker on 127.0.0.1:9092)

  tidemill topics create orders --partitions 6

  echo 'hello' | tidemill produce orders

  tidemill consume orders --from earliest

Commands other than `dev`, `broker` and `log` work with any Kafka broker: name it with --bootstrap HOST:PORT
or TIDEMILL_BOOTSTRAP.  Every command takes --json.  Exit codes: 0 done, 1 failed, 2 usage, 3 no broker.
"""


def application(arguments: list[str]) -> typer.Typer:
    """The command line with only the command that `arguments` begin with; with all of them when that is unknown."""
    app = typer.Typer(
        name="tidemill",
        help=ABOUT,
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # a traceback of ours is a bug and is shown as Python shows it
        rich_markup_mode=None,  # plain help: importing rich would triple the time of `--help`
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def _keep_names() -> None:
        """With a callback, a single command keeps its name."""

    app.registered_callback.help = ABOUT  # type: ignore[union-attr]
    named = arguments[0] if arguments and arguments[0] in COMMANDS else None
    for command in [named] if named else COMMANDS:
        import_module(f"tidemill.cli.{command}").register(app)
    return app


def main(arguments: list[str] | None = None) -> None:
    """Run and exit the process."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        application(arguments)(arguments, prog_name="tidemill")
    except Failed as failure:
        failure.print(as_json="--json" in arguments)
        sys.exit(failure.exit_code)
