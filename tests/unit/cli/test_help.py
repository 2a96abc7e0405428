"""The help of every command is complete."""

import re

import pytest

from tests.unit.cli.command_tree import Command, check, commands


@pytest.mark.parametrize("command", commands(), ids=lambda command: " ".join(("tidemill", *command.words)))
def test_help_contains_examples(command: Command) -> None:
    """
    The help of every command has examples to copy.  An example is an indented line, unlike the usage, and runs the
    command itself.
    """
    example = rf"^ +(Example: |[^`\n]+ \| )?{' '.join(('tidemill', *command.words))}\b"

    assert command.examples and re.search(example, command.help, re.MULTILINE), command.help


@pytest.mark.parametrize(
    "example", sorted({line for command in commands() for line in command.examples if command.words})
)
def test_an_example_can_be_parsed(example: str) -> None:
    """
    Every option, argument and value of an example exists.  Most examples also run, in `test_help_examples`.
    """
    check(example)


def test_an_example_with_a_wrong_option_is_found() -> None:
    """
    The check of examples fails for an option that the command does not have.
    """
    with pytest.raises(Exception, match="No such option: --intervall"):
        check("tidemill top --intervall 5")
