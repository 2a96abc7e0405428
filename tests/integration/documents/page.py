"""The commands of a Markdown page: what a reader types, terminal by terminal, and what they are told to expect.

A fence is a step of the page.  Its info string says what kind of step it is:

    ```sh                          commands, typed into terminal 1
    ```sh title="terminal 2"       commands, typed into that terminal; each terminal is a shell that stays open
    ```text title="prints"         what the commands before it print; `…` stands for any text
    ```python title="job.py"       a file of this name; also yaml, and any other language with a title

A fence in another language, or without a title, is an illustration and is skipped.  `<!-- not run: REASON -->` on the
line before a fence skips it; the reason is for the reader of the source.
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
_FIRST_TERMINAL: Final = "terminal 1"
PRINTS: Final = "prints"


@dataclass(frozen=True, slots=True)
class Commands:
    line: int
    terminal: str
    text: str


@dataclass(frozen=True, slots=True)
class Prints:
    line: int
    text: str

    def pattern(self) -> re.Pattern[str]:
        """
        Return a pattern that matches the text whatever the amount of white space, and in which `…` matches anything.
        """
        parts = (r"\s+".join(map(re.escape, part.split())) for part in self.text.split("…"))
        return re.compile(r"\s*.*?\s*".join(parts), re.DOTALL)


@dataclass(frozen=True, slots=True)
class File:
    line: int
    name: str
    text: str


Step = Commands | Prints | File


def steps_of(page: Path) -> Iterator[Step]:
    """Yield the steps of a page in order."""
    text = page.read_text()
    for fence in _FENCE.finditer(text):
        if fence["reason"]:
            continue
        line = text.count("\n", 0, fence.start("language")) + 1
        match fence["language"], fence["title"]:
            case "sh", title:
                yield Commands(line, title or _FIRST_TERMINAL, fence["body"])
            case "text", "prints":
                yield Prints(line, fence["body"])
            case _, str(title):
                yield File(line, title, fence["body"])
