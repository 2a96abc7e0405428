"""All commands of `tidemill`, with their help."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import typer.main

from tidemill.cli.main import application


class Command(NamedTuple):
    words: tuple[str, ...]  # without `tidemill`
    help: str  # what `--help` prints
    text: str  # the text of the help before it is wrapped to the width of a terminal

    @property
    def examples(self) -> list[str]:
        """Return the lines that run this command itself, ready to be typed."""
        name = " ".join(("tidemill", *self.words))
        lines = (line.strip().removeprefix("Example: ") for line in self.text.splitlines())
        return [line for line in lines if line.startswith(name) or f"| {name} " in line]


def commands() -> list[Command]:
    """Return all commands and groups of commands; the first one is `tidemill` without a subcommand."""
    return [*_walk(typer.main.get_command(application([])), None, "tidemill", ())]


def _walk(command: Any, parent: Any, name: str, words: tuple[str, ...]) -> Iterator[Command]:
    context = command.context_class(command, info_name=name, parent=parent, **command.context_settings)
    yield Command(words, command.get_help(context), command.help or "")
    for subname in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _walk(command.get_command(context, subname), context, subname, (*words, subname))
