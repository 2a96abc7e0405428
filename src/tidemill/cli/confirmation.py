"""Asks for confirmation on a terminal before a command does what cannot be undone."""

import sys
from typing import Annotated

import typer

from tidemill.cli.failure import Failed

YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask.  Without a terminal on stdin, the command never asks.")
]


def confirm(question: str, *, is_sure: bool, otherwise: str = "nothing was deleted") -> None:
    """
    Unless `is_sure` is set, ask on stderr if stdin is a terminal.  Unless the answer is yes, raise `Failed` with the
    message `otherwise`.
    """
    if not is_sure and sys.stdin.isatty() and not typer.confirm(question, err=True):
        raise Failed(otherwise)
