"""`tidemill`: find the command that was named, import only that, run it, and turn its failure into an exit code.

Exit codes: 0 done, 1 failed, 2 usage, 3 no broker.
"""

import gc
import sys
from importlib import import_module
from typing import Any, Final

gc.set_threshold(100_000, 20, 20)  # imports make objects that stay; to look through them costs a tenth of a start

import typer  # noqa: E402

from tidemill.cli.failure import ExitCode, Failed, usage  # noqa: E402

COMMANDS: Final = ("dev", "broker", "topics", "produce", "consume", "log", "cluster")
"""Command → the module of that name beside this one; each has `register(application)`.  In the order of `--help`."""

_Misuse: Final[Any] = typer.BadParameter.__mro__[1]
"""What typer raises for a wrong command line, `UsageError`; only its child has a public name."""

ABOUT: Final = """A message queue that speaks Kafka, with a data pipeline on Spark.

Examples, in two terminals:

  tidemill dev     (a whole broker on 127.0.0.1:9092)

  tidemill topics create orders --partitions 6

  echo 'hello' | tidemill produce orders

  tidemill consume orders --from earliest

Commands other than `dev`, `broker`, `log` and `cluster` work with any Kafka broker: name it with
--bootstrap HOST:PORT or TIDEMILL_BOOTSTRAP.  Every command takes --json.
Exit codes: 0 done, 1 failed, 2 usage, 3 no broker.
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
    as_json = "--json" in arguments
    try:
        # The parser prints what it finds wrong for people; under --json we do it.
        sys.exit(application(arguments)(arguments, prog_name="tidemill", standalone_mode=not as_json))
    except _Misuse as misuse:
        failure = usage(f"{misuse.format_message()} See `{_path(misuse)} --help`.")
    except typer.Abort:
        sys.exit(ExitCode.INTERRUPTED)
    except Failed as failed:
        failure = failed
    failure.print(as_json=as_json)
    sys.exit(failure.exit_code)


def _path(misuse: Any) -> str:
    """The command that was meant, as far as it was understood."""
    return misuse.ctx.command_path if misuse.ctx is not None else "tidemill"
