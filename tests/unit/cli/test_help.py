"""The help of every command is complete."""

import re

import pytest

from tests.unit.cli.command_tree import Command, commands


@pytest.mark.parametrize("command", commands(), ids=lambda command: " ".join(("tidemill", *command.words)))
def test_help_contains_examples(command: Command) -> None:
    """
    The help of every command has examples to copy.  An example is an indented line, unlike the usage, and runs the
    command itself.
    """
    example = rf"^ +(Example: |[^`\n]+ \| )?{' '.join(('tidemill', *command.words))}\b"

    assert command.examples and re.search(example, command.help, re.MULTILINE), command.help
