"""The steps of a Markdown page: what a reader types, terminal by terminal, and what output the page tells them to
expect.

A fenced code block is a step of the page.  Its info string says what kind of step it is:

    ```sh                          commands, typed into terminal 1
    ```sh title="terminal 2"       commands, typed into that terminal; each terminal is a shell that stays open
    ```python                      a cell, typed into the page's Python session, which keeps the names of earlier cells
    ```text title="prints"         what the commands or the cell before it print; `…` matches any text
    ```python title="job.py"       a file of this name; also yaml, and any other language with a title

Any other `text` block is an illustration and is skipped; any other block is an error.  `<!-- not run: REASON -->` on
the line before a block skips the block; the reason is for readers of the Markdown source.  A block that is not closed
is an error, too: it would hide the steps behind it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FENCE: Final = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n)?^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_BACKTICKS: Final = re.compile(r"^\s*```", re.MULTILINE)
_FIRST_TERMINAL: Final = "terminal 1"
PRINTS: Final = "prints"


@dataclass(frozen=True, slots=True)
class Commands:
    line: int
    terminal: str
    text: str


@dataclass(frozen=True, slots=True)
class Cell:
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Prints:
    line: int
    text: str

    def pattern(self) -> re.Pattern[str]:
        return pattern_of(self.text)


@dataclass(frozen=True, slots=True)
class File:
    line: int
    name: str
    text: str


Step = Commands | Cell | Prints | File


def pattern_of(text: str) -> re.Pattern[str]:
    """Return a pattern that matches the text whatever the amount of white space, and in which `…` matches anything."""
    parts = (r"\s+".join(map(re.escape, part.split())) for part in text.split("…"))
    return re.compile(r"\s*.*?\s*".join(parts), re.DOTALL)


def quotes_of(page: Path, heading: str) -> dict[str, re.Pattern[str]]:
    """Return the patterns of the illustrations in the section below `heading`, by title."""
    section = page.read_text().partition(f"\n{heading}")[2].partition("\n## ")[0]
    fences = [fence for fence in _FENCE.finditer(section) if fence["language"] == "text" and fence["title"]]
    return {fence["title"]: pattern_of(fence["body"]) for fence in fences if fence["title"] != PRINTS}


def steps_of(page: Path) -> Iterator[Step]:
    """Yield the steps of a page in order.  Raise ValueError if a block is no step, or is not closed."""
    text = page.read_text()
    fences = [*_FENCE.finditer(text)]
    ends = {place for fence in fences for place in (fence.start("language") - 3, fence.end() - 3)}
    for backticks in _BACKTICKS.finditer(text):
        if backticks.end() - 3 not in ends:
            line = text.count("\n", 0, backticks.end()) + 1
            raise ValueError(f"{page.name}:{line}: the fence does not open or close a code block")
    for fence in fences:
        if fence["reason"]:
            continue
        line = text.count("\n", 0, fence.start("language")) + 1
        match fence["language"], fence["title"]:
            case "sh", title:
                yield Commands(line, title or _FIRST_TERMINAL, fence["body"])
            case "text", title:
                if title == PRINTS:
                    yield Prints(line, fence["body"])
            case "python", None:
                yield Cell(line, fence["body"])
            case _, str(title):
                yield File(line, title, fence["body"])
            case language, None:
                raise ValueError(f"{page.name}:{line}: the fence is in {language} and has no title: it is no step")
