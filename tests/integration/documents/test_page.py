"""A page is parsed into steps and patterns of its illustrations; a notebook and a terminal execute the steps."""

import os
from pathlib import Path

import pytest

from tests.integration.documents.notebook import Notebook
from tests.integration.documents.page import Cell, Commands, File, Prints, quotes_of, steps_of
from tests.integration.documents.terminal import Terminal

PAGE = """
```sh title="terminal 2"
ls
```
```text title="prints"
a … b
```
```python
x = 1
```
```python title="job.py"
y = 2
```
<!-- not run: it takes days -->
```sh
sleep 1d
```
```text title="an illustration"
| |
```

## Errors
```text title="a mistake"
the value … is wrong
```

## Next
```text title="another page"
…
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_every_fence_is_a_step_or_an_illustration(page: Path) -> None:
    """
    Commands, cells and files are steps; a text block without the title `prints`, and a block with a reason not to run
    it, are not.
    """
    assert [
        Commands(2, "terminal 2", "ls\n"), Prints(5, "a … b\n"), Cell(8, "x = 1\n"), File(11, "job.py", "y = 2\n"),
    ] == [*steps_of(page)]  # fmt: skip


def test_a_fence_that_is_no_step_is_an_error(page: Path) -> None:
    """
    A code block in another language without a title is an error; otherwise it would be skipped silently.
    """
    page.write_text("```yaml\na: 1\n```\n")

    with pytest.raises(ValueError, match=r"page\.md:1: the fence is in yaml and has no title"):
        list(steps_of(page))


def test_a_fence_that_is_not_closed_is_an_error(page: Path) -> None:
    """
    A code block without an end is an error at its first line, whether or not other blocks follow; otherwise the steps
    in it and behind it would be skipped silently.
    """
    open_block = '```python title="job.py"\ny = 2 ``` ```sh\n'

    for text, line in ((PAGE + open_block, PAGE.count("\n") + 1), (open_block + PAGE, 4)):
        page.write_text(text)
        with pytest.raises(ValueError, match=rf"page\.md:{line}: the fence does not open or close a code block"):
            list(steps_of(page))


def test_the_quotes_of_a_section_are_patterns(page: Path) -> None:
    """
    The illustrations of one section are patterns in which `…` matches any text.
    """
    quotes = quotes_of(page, "## Errors")

    assert ["a mistake"] == [*quotes]
    assert quotes["a mistake"].search("ValueError: the value 7\nis wrong: use 8")
    assert not quotes["a mistake"].search("the value is right")


def test_a_cell_keeps_the_names_of_earlier_ones_and_shows_what_it_prints(tmp_path: Path) -> None:
    """
    Cells run in one session; a cell that raises is reported with its traceback, and the session continues.
    """
    notebook = Notebook(tmp_path, os.environ)
    try:
        assert notebook.run("x = 1\n") and "" == notebook.screen
        assert not notebook.run("print(x)\nraise ValueError(x + 1)\n")
        assert notebook.screen.startswith("1\n") and notebook.screen.endswith("ValueError: 2\n")
        assert notebook.run("print(x + 2)\n") and "3\n" == notebook.screen
    finally:
        notebook.close()


@pytest.mark.parametrize(
    ("commands", "status"),
    [
        ("true\ntrue", 0),
        ("false\ntrue", 1),
        ("(exit 3)\n(exit 4)\ntrue", 3),
        ("false | true\ntrue", 1),
        ("if false; then true; fi\nfalse || true", 0),
        ("false && true", 1),
    ],
)
def test_a_failing_line_is_noticed_wherever_it_stands(tmp_path: Path, commands: str, status: int) -> None:
    """
    The exit status is that of the first command that fails, not that of the last one, and the shell continues.
    """
    terminal = Terminal(tmp_path, os.environ)
    try:
        assert status == terminal.run(commands, lambda _: False, 30)
        assert 0 == terminal.run("true", lambda _: False, 30)
    finally:
        terminal.close()
