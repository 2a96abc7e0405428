"""Run data pipelines on Spark: between topics, and between topics and files.

They need PySpark (pip install 'tidemill[spark]') and Java 17 or newer, and work with any Kafka broker.

\b
Examples:
  tidemill pipeline list
  tidemill pipeline describe audit
  tidemill pipeline run audit --help
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from tidemill.cli.bootstrap import JsonOption
from tidemill.cli.command_group import CommandGroup
from tidemill.cli.failure import usage

if TYPE_CHECKING:
    from tidemill.spark.pipelines.frame.pipeline import Pipeline

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A pipeline, as `tidemill pipeline list` shows it.")]


class PipelineCommands(TyperGroup):
    """A group with one command per pipeline, which is created from the pipeline's options on demand."""

    def list_commands(self, ctx: Any) -> list[str]:
        from tidemill.spark.pipelines import registry

        return registry.names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        from tidemill.cli.pipeline_command import command_of

        return command_of(_loaded(cmd_name))


def register(application: typer.Typer) -> None:
    pipeline = CommandGroup("pipeline", __doc__)
    pipeline.command(name="list")(list_)
    pipeline.command()(describe)
    runs = typer.Typer(
        name="run",
        help=RUN_HELP,
        cls=PipelineCommands,
        no_args_is_help=True,
        subcommand_metavar="NAME [OPTIONS]...",
        rich_markup_mode=None,
    )
    runs.callback()(_run)
    pipeline.add_typer(runs)
    application.add_typer(pipeline)


RUN_HELP = """
Run a pipeline.  A run that was interrupted or killed is resumed by the same command.

Exit codes: 0 done, 1 the check of the pipeline found differences, 2 usage or failure, 3 no broker, 130 interrupted.

Example: tidemill pipeline run audit --topic flights --target flights-copy --state audit-state
"""


def _run() -> None: ...


_run.__doc__ = RUN_HELP


def list_(as_json: JsonOption = False) -> None:
    """
    List the pipelines.

    Example: tidemill pipeline list
    """
    from tidemill.cli.output import print_json, print_table
    from tidemill.spark.pipelines import registry

    pipelines = [registry.load(name) for name in registry.names()]
    if as_json:
        for it in pipelines:
            print_json({"pipeline": it.name, "summary": it.summary, "checks": it.checks})
    else:
        print_table(("pipeline", "what it does"), [(it.name, it.summary) for it in pipelines])


def describe(name: NameArgument, as_json: JsonOption = False) -> None:
    """
    Show what a pipeline does, what it checks, and its options.

    Example: tidemill pipeline describe audit
    """
    from tidemill.cli.output import print_json, print_table
    from tidemill.cli.pipeline_command import example_of
    from tidemill.spark.pipelines.frame.option import options_of

    pipeline = _loaded(name)
    options = options_of(pipeline.options)
    if as_json:
        described = [
            {
                "option": it.flag,
                "required": it.is_required,
                "default": it.default_text,
                "choices": list(it.choices),
                "repeatable": it.is_repeatable,
                "help": it.help,
            }
            for it in options
        ]
        fields = {"pipeline": name, "summary": pipeline.summary, "checks": pipeline.checks}
        print_json({**fields, "example": example_of(pipeline), "options": described})
        return
    print(f"{name}: {pipeline.summary}\n\nChecked: {pipeline.checks}\nExample: {example_of(pipeline)}\n")
    rows = [(it.flag, "required" if it.is_required else it.default_text, _meaning(it)) for it in options]
    print_table(("option", "default", "meaning"), rows)
    print(f"\n`tidemill pipeline run {name} --help` also lists the options of every run.")


def _meaning(option: Any) -> str:
    return str(option.help) + (f"  One of {', '.join(option.choices)}." if option.choices else "")


def _loaded(name: str) -> "Pipeline[Any]":
    from tidemill.spark.pipelines import registry

    try:
        return registry.load(name)
    except ValueError as error:
        raise usage(f"{error} (`tidemill pipeline list` lists them)") from error
