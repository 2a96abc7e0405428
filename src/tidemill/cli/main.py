"""The `tidemill` entry point: imports and runs only the requested command, and turns a failure into an exit code.

Exit codes: 0 done, 1 failed, 2 usage, 3 no broker, 130 interrupted.
"""

import gc
import sys
from importlib import import_module
from typing import Annotated, Any, Final

gc.set_threshold(100_000, 20, 20)  # speeds up the start: almost no object that imports create is garbage

import typer  # noqa: E402

from tidemill.cli.command_group import CommandGroup  # noqa: E402
from tidemill.cli.failure import ExitCode, Failed, usage  # noqa: E402

COMMANDS: Final = (
    "dev",
    "broker",
    "topics",
    "configs",
    "produce",
    "consume",
    "groups",
    "queue",
    "timers",
    "dlq",
    "top",
    "pipeline",
    "bench",
    "log",
    "cluster",
    "doctor",
)
"""Commands in the order of `--help`.  Each has a module of the same name in `cli`, with a function `register`."""

_Misuse: Final[Any] = typer.BadParameter.__mro__[1]
"""`UsageError`, which typer raises for an invalid command line.  typer exports only its subclass."""

ABOUT: Final = """A message queue that speaks Kafka, with a data pipeline on Spark.

Examples, in two terminals:

  tidemill dev     # a whole broker on 127.0.0.1:9092

  tidemill topics create orders --partitions 6

  echo 'hello' | tidemill produce orders

  tidemill consume orders --from earliest

Commands other than `dev`, `broker`, `queue`, `timers`, `dlq redrive`, `log`, `cluster` and `doctor` work with any Kafka
broker: set its address with --bootstrap HOST:PORT or TIDEMILL_BOOTSTRAP.  Every command accepts --json.
Exit codes: 0 done, 1 failed, 2 usage, 3 no broker.
"""


def application(arguments: list[str]) -> typer.Typer:
    """
    Return the application with only the command that `arguments` name, or with all commands if they name none.

    A shell that asks for completions passes no arguments, so it gets all commands, with their options.
    """
    named = arguments[0] if arguments and arguments[0] in COMMANDS else None
    app = CommandGroup(
        "tidemill",
        ABOUT,
        add_completion=named is None,  # completion is not needed while running a single command
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()  # also keeps the command's name: without a callback, typer drops the name of a single command
    def _options(
        _: Annotated[
            bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
        ] = False,
    ) -> None: ...

    app.registered_callback.help = ABOUT  # type: ignore[union-attr]
    for command in [named] if named else COMMANDS:
        import_module(f"tidemill.cli.{command}").register(app)
    return app


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version  # imported here because the import is slow (decision 12)

        print(f"tidemill {version('tidemill')}")
        raise typer.Exit


def main(arguments: list[str] | None = None) -> None:
    """Run the command that `arguments` name, and exit the process.  The default is the process's own arguments."""
    arguments = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in arguments
    try:
        # In standalone mode the parser prints usage errors as text.  With --json, they are printed below instead.
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
    """Return the path of the command in which the error occurred."""
    return misuse.ctx.command_path if misuse.ctx is not None else "tidemill"
