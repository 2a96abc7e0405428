"""Creates the command of a pipeline, `tidemill pipeline run NAME`, from the pipeline's options."""

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
import typer.main

from tidemill.cli.bootstrap import BootstrapOption, JsonOption
from tidemill.cli.failure import usage
from tidemill.spark.pipelines.frame.option import Option, options_of
from tidemill.spark.pipelines.frame.pipeline import Pipeline

PANEL_LINES = "The options of every run:"


def example_of(pipeline: Pipeline[Any]) -> str:
    """Return a command line that runs the pipeline."""
    return f"tidemill pipeline run {pipeline.name} {pipeline.example} --state {pipeline.name}-state"


def command_of(pipeline: Pipeline[Any]) -> Any:
    """Return the typer command of a pipeline."""
    application = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    summary = pipeline.summary[0].upper() + pipeline.summary[1:]
    help_text = f"{summary}.\n\nChecked: {pipeline.checks}\n\nExample: {example_of(pipeline)}"
    application.command(name=pipeline.name, help=help_text)(_function(pipeline))
    return typer.main.get_command(application)


def _function(pipeline: Pipeline[Any]) -> Callable[..., None]:
    """
    Return a function whose parameters are the pipeline's options and the options common to all runs, for typer to
    inspect.
    """
    options = options_of(pipeline.options)

    def function(**values: Any) -> None:
        given = {it.name: values.pop(it.name) for it in options}
        is_given = {it.name: given[it.name] != _default(it) for it in options}
        run_command(pipeline, {name: value for name, value in given.items() if is_given[name]}, **values)

    common = inspect.signature(run_command).parameters.values()
    parameters = [*map(_parameter, options), *(it for it in common if it.kind is inspect.Parameter.KEYWORD_ONLY)]
    # typer inspects both: the signature for defaults, and the annotations for types.
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {it.name: it.annotation for it in parameters}
    return function


def _parameter(option: Option) -> inspect.Parameter:
    """
    Return the parameter for an option.  Its value is text, which the option parses, so that a command and a Python
    function refuse the same values with the same message.
    """
    if option.type is bool:
        annotation: Any = Annotated[bool, typer.Option(f"{option.flag}/--no-{option.flag[2:]}", help=option.help)]
        default: Any = option.default
    else:
        metavar = option.metavar or ("|".join(option.choices) if option.choices else _metavar(option.type))
        several = "  Repeatable." if option.is_repeatable else ""
        settings = typer.Option(option.flag, metavar=metavar, help=option.help + several)
        annotation = Annotated[list[str] | None if option.is_repeatable else str | None, settings]
        default = _default(option)
    if option.is_required:
        annotation = Annotated[list[str] if option.is_repeatable else str, settings]
        default = inspect.Parameter.empty
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _default(option: Option) -> Any:
    """Return the value of the parameter if the option is missing from the command line."""
    if option.type is bool:
        return option.default
    if option.is_repeatable:
        return None
    return option.default_text


def _metavar(type_: Any) -> str:
    return {int: "N", float: "X"}.get(type_, "TEXT")


def run_command(
    pipeline: Pipeline[Any],
    options: dict[str, object],
    *,
    state: Annotated[
        str, typer.Option(metavar="DIR", help="A directory for what a later run needs to resume; one for each job.")
    ],
    is_continuous: Annotated[
        bool,
        typer.Option("--continuous/--once", help="Go on with new records, or end when all that are there are done."),
    ] = False,
    master: Annotated[
        str, typer.Option(metavar="URL", help="Spark's master, for example spark://HOST:7077.")
    ] = "local[*]",
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark.  Repeatable.")
    ] = None,
    is_dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, and write nothing.")] = False,
    kafka: Annotated[
        list[str] | None,
        typer.Option(
            "-X", metavar="KEY=VALUE", help="A setting of the Kafka clients, such as sasl.username.  Repeatable."
        ),
    ] = None,
    bootstrap: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the command line, then run the pipeline.  The annotations declare the options of every run."""
    from tidemill.cli.bootstrap import check_reachable, resolve
    from tidemill.spark.pipelines.frame.option_values import build

    servers = resolve(bootstrap)
    settings = _pairs("-X", kafka or ())
    try:
        build(pipeline.options, options)
    except (ValueError, TypeError) as error:
        raise usage(f"{error} (`tidemill pipeline describe {pipeline.name}` lists the options)") from error
    if "SSL" not in settings.get("security.protocol", ""):  # the reachability check connects without TLS
        check_reachable(servers)

    from tidemill.cli.pipeline_run import PipelineRun

    PipelineRun(
        pipeline=pipeline,
        options=options,
        state=state,
        bootstrap_servers=servers,
        kafka=settings,
        is_continuous=is_continuous,
        is_dry_run=is_dry_run,
        as_json=as_json,
    ).execute(master, _pairs("--conf", conf or ()))


def _pairs(flag: str, texts: Sequence[str]) -> dict[str, str]:
    """
    Return the values by key.

    Raise a usage error for a text that is not KEY=VALUE, and for a repeated key.  The error hides values, which may be
    secrets.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise usage(f"{flag}: {key or text[:1]!r} has no value; write {flag} KEY=VALUE")
        key = key.removeprefix("kafka.") if flag == "-X" else key
        if key in pairs:
            raise usage(f"{flag} {key} is given twice; give it once")
        pairs[key] = value
    return pairs
