"""The pages are correct: the suite types each command and writes each file exactly as the page shows them."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.integration.documents.notebook import Notebook
from tests.integration.documents.page import Cell, Commands, File, Prints, steps_of
from tests.integration.documents.terminal import Terminal
from tests.java_options import JAVA_OPTIONS

ROOT: Final = Path(__file__).resolve().parents[3]
PAGES: Final = ("README.md",)
INSTALLED_PAGES: Final = (
    "docs/quick-start.md",
    "docs/queues.md",
    "docs/timers.md",
    "docs/python.md",
    "docs/http.md",
    "docs/operations.md",
    "docs/operations/settings.md",
    "docs/operations/restart.md",
    "docs/operations/failures.md",
    "docs/operations/dead-letters.md",
    "docs/spark.md",
    "docs/testing.md",
)
"""Pages whose reader has installed Tidemill, as README.md says."""
CONTAINERS: Final = "docs/containers.md"
SYSTEMD: Final = "docs/systemd.md"
TYPED_PAGES: Final = (*PAGES, *INSTALLED_PAGES, CONTAINERS, SYSTEMD)
"""All pages that are typed; `conformance/test_packaging.py` types the last two if Docker or systemd is available."""
SECONDS_MAX: Final = 600  # time limit of one step; an installation from an empty cache takes minutes
PRINTS_SECONDS_MAX: Final = 240  # time limit for expected output; a Spark job takes a minute on a busy machine
READY: Final = re.compile(
    r"Tidemill is ready|ready: |\bready\b.*kafka"
    # Lines that a Spark server prints once it is ready.
    r"|New state: ALIVE|Successfully registered with master|Spark Connect server started"
)
PLACEHOLDERS: Final = {"<this repository>": str(ROOT)}


class Reader:
    """Follows a page like a person who reads it, in a directory of its own and with an empty home directory."""

    def __init__(self, directory: Path, *, has_installed: bool = False) -> None:
        """
        Follow pages in `directory`.  With `has_installed`, the commands of this environment are on `PATH` and
        `directory` contains the examples; without it, no virtual environment is on `PATH`.
        """
        home = directory / "home"
        home.mkdir()
        self._directory = directory
        self._environment = {
            "HOME": str(home),
            "JAVA_TOOL_OPTIONS": " ".join(JAVA_OPTIONS),
            "LANG": "C.UTF-8",
            "PATH": os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if ".venv" not in part),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "CFLAGS": "-O0",  # compile in 3 s instead of 16
            "PIP_NO_COMPILE": "1",  # Python compiles what it imports, a small part of what is installed
            "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip")),
            **{name: os.environ[name] for name in ("JAVA_HOME", "PIP_INDEX_URL") if name in os.environ},
        }
        if has_installed:
            commands = str(Path(sys.executable).parent)
            self._environment["PATH"] = os.pathsep.join([commands, self._environment["PATH"]])
            self._environment["PYTHONPATH"] = str(ROOT / "src")
            (directory / "examples").symlink_to(ROOT / "examples")
        self._terminals: dict[str, Terminal] = {}
        self._notebook: Notebook | None = None
        self._last: Terminal | Notebook | None = None

    def follow(self, page: str) -> None:
        """Execute the steps of a page in TYPED_PAGES."""
        assert page in TYPED_PAGES, f"add {page} to TYPED_PAGES, so that its steps are always read"
        for step in steps_of(ROOT / page):
            where = f"{page}:{step.line}"
            match step:
                case Commands():
                    self._type(step, where)
                case Cell():
                    self._run(step, where)
                case Prints():
                    assert self._last is not None, f"{where}: nothing was typed before"
                    found = self._last.wait_for(step.pattern(), PRINTS_SECONDS_MAX)
                    assert found, f"{where}: expected\n{step.text}\nbut the screen shows\n{self._last.screen}"
                case File():
                    self._have(step, where)

    def close(self) -> None:
        if self._notebook is not None:
            self._notebook.close()
        for terminal in reversed(self._terminals.values()):
            terminal.close()

    def _have(self, step: File, where: str) -> None:
        """Write the file.  If the clone already has it, check that the page shows its actual contents."""
        path = self._here() / step.name
        if path.exists():
            assert path.read_text() == step.text, f"{where}: {step.name} differs from the file"
        else:
            path.write_text(step.text)

    def _here(self) -> Path:
        """Return the directory in which the reader works: the clone, once there is one."""
        clone = self._directory / "tidemill"
        return clone if clone.is_dir() else self._directory

    def _type(self, step: Commands, where: str) -> None:
        terminal = self._terminals.get(step.terminal)
        if terminal is not None and terminal.is_occupied:
            terminal.interrupt()
        if terminal is None:
            terminal = self._terminals[step.terminal] = Terminal(self._here(), self._environment)
        text = step.text
        for placeholder, value in PLACEHOLDERS.items():
            text = text.replace(placeholder, value)
        status = terminal.run(text, READY.search, SECONDS_MAX)
        assert status in (0, None), f"{where}: exit status {status}\n{text}\n{terminal.screen}"
        self._last = terminal

    def _run(self, step: Cell, where: str) -> None:
        if self._notebook is None:
            self._notebook = Notebook(self._here(), self._environment)
        assert self._notebook.run(step.text), f"{where}:\n{step.text}\n{self._notebook.screen}"
        self._last = self._notebook


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Reader]:
    following = Reader(tmp_path)
    yield following
    following.close()


@pytest.fixture
def user(tmp_path: Path) -> Iterator[Reader]:
    following = Reader(tmp_path, has_installed=True)
    yield following
    following.close()


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_says(page: str, newcomer: Reader) -> None:
    """
    Every command on the page succeeds, every server becomes ready, and the output that the page shows is printed.
    """
    newcomer.follow(page)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", INSTALLED_PAGES)
def test_a_page_does_what_it_says_once_tidemill_is_installed(page: str, user: Reader) -> None:
    """
    On a page for readers who have installed Tidemill, too, every command succeeds, every server becomes ready, and the
    output that the page shows is printed.
    """
    user.follow(page)
