"""All commands of `tidemill`, with their help."""

import re
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import typer.main

from tidemill.cli.main import application


class Command(NamedTuple):
    words: tuple[str, ...]  # the words of the command line that name the command, without `tidemill`
    help: str  # what `--help` prints
    text: str  # the text of the help before it is wrapped to the width of a terminal
    parse: Callable[[list[str]], Any]  # parses options and arguments, and raises an error for wrong ones

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
    parse = partial(command.make_context, name)
    yield Command(words, command.get_help(context), command.help or "", parse)
    for subname in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _walk(command.get_command(context, subname), context, subname, (*words, subname))


def check(example: str) -> None:
    """Parse what an example passes to `tidemill`.  Raise an error for an option or value that does not exist."""
    line = re.sub(r"^.*?\| (?=tidemill )", "", example).partition(" | ")[0]
    words = shlex.split(line, comments=True)[1:]
    by_words = {command.words: command for command in commands()}
    length = max(length for length in range(len(words) + 1) if tuple(words[:length]) in by_words)
    if "--help" not in words:
        by_words[tuple(words[:length])].parse(words[length:])
