"""The --wait option: for how long a command waits until what it asked for is done."""

from typing import Annotated

import typer

WaitOption = Annotated[
    str | None,
    typer.Option("--wait", metavar="DURATION", help="Wait until it is done, for up to this long, such as 10m."),
]
