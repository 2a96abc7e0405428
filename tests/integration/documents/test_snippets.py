"""Every command block, snippet and file of the documentation is executed: by `test_pages`, or by a test listed here."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.integration.documents.page import Commands, steps_of
from tests.integration.documents.test_pages import CONTAINERS, INSTALLED_PAGES, PAGES, ROOT, SYSTEMD, TYPED_PAGES

EXECUTED_ELSEWHERE: Final = {
    "CONTRIBUTING.md": "recipes for editing files; the tests that each recipe names check the result",
    CONTAINERS: "conformance/test_packaging.py, which needs Docker",
    "docs/http.md": "tests/tidy/test_monitoring.py: promtool checks the configuration",
    SYSTEMD: "conformance/test_packaging.py, which needs root and systemd",
}
_FENCE: Final = re.compile(r"^\s*```(?P<language>\w+)[^\n]*\n(?P<body>.*?)^\s*```$", re.MULTILINE | re.DOTALL)
_ILLUSTRATIONS: Final = ("mermaid", "text")  # languages that are not typed
_DOCUMENTS: Final = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def _fences(page: Path) -> list[tuple[str, str]]:
    return [(fence["language"], fence["body"]) for fence in _FENCE.finditer(page.read_text())]


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


SNIPPETS: Final = [
    (_name(page), body)
    for page in _DOCUMENTS
    if _name(page) not in (*PAGES, *INSTALLED_PAGES)
    for language, body in _fences(page)
    if language == "python"
]


@pytest.mark.parametrize(("page", "code"), SNIPPETS, ids=[page for page, _ in SNIPPETS])
def test_a_python_snippet_runs(page: str, code: str, tmp_path: Path) -> None:
    """
    The snippet runs as a program of its own, outside the repository.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert 0 == done.returncode, f"{page}\n{done.stdout}{done.stderr}"
    assert done.stdout, f"{page}: a snippet shows something"


def test_no_command_or_snippet_is_left_out() -> None:
    """
    Every page with commands or files is typed by `test_pages`, or is listed above with the test that executes it.
    """
    executed = {*PAGES, *INSTALLED_PAGES, *EXECUTED_ELSEWHERE}
    left_out = {
        (_name(page), language)
        for page in _DOCUMENTS
        for language, _ in _fences(page)
        if language not in (*_ILLUSTRATIONS, "python") and _name(page) not in executed
    }

    assert set() == left_out


@pytest.mark.parametrize("page", TYPED_PAGES)
def test_the_steps_of_a_page_can_be_read(page: str) -> None:
    """
    A code block that is not a step is an error even on a page that this machine cannot type because it lacks Docker or
    systemd.
    """
    steps = [*steps_of(ROOT / page)]

    assert [step for step in steps if isinstance(step, Commands)]
