"""Groups of commands, and the uniform help format of all commands."""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand


class PlainCommand(TyperCommand):
    """A command whose usage line shows a required argument as TOPIC; typer would show {TOPIC}."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.removeprefix("{").removesuffix("}") for piece in super().collect_usage_pieces(ctx)]


class CommandGroup(typer.Typer):
    """Commands with plain help and plain errors."""

    def __init__(self, name: str, help_: str | None, **more: Any) -> None:
        super().__init__(
            name=name,
            help=help_,
            no_args_is_help=True,
            pretty_exceptions_enable=False,  # a traceback means a bug: show it in Python's own format
            rich_markup_mode=None,  # plain help: importing rich would triple the time of `--help`
            **more,
        )

    def command(self, name: str | None = None, **more: Any) -> Callable[..., Any]:
        return super().command(name, cls=PlainCommand, **more)
