"""Rules for source files: docstrings, names and packages."""

import ast
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT, files, for_each, parsed

NAMELESS = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}
ALL = files() + sorted((ROOT / "src" / "pyspark_tidemill").rglob("*.py")) + sorted((ROOT / "tools").glob("*.py"))
PACKAGES = [path for path in ALL if path.name == "__init__.py"]
PUBLIC = (ROOT / "src" / "tidemill" / "__init__.py", ROOT / "src" / "tidemill" / "spark" / "pipelines" / "__init__.py")
"""Users call `tidemill.connect(…)` and `pipelines.archive(…)`.  These files import what they export when it is used."""
PLUGIN = ROOT / "src" / "tidemill" / "testing" / "__init__.py"
"""Users name this package as a plugin of pytest, so it names the module with the fixtures."""


@for_each(ALL)
def test_a_file_says_what_it_is(path: Path) -> None:
    """
    A file starts with a docstring that says what it is.
    """
    docstring = ast.get_docstring(parsed(path))

    assert docstring


@for_each(ALL)
def test_a_file_is_named_after_its_concept(path: Path) -> None:
    """
    A file is named after its concept; generic names such as `utils` are not allowed.
    """
    words = {path.stem, *path.stem.split("_"), *path.parent.parts}

    assert set() == words & NAMELESS


@for_each(
    [path for path in PACKAGES if path.is_relative_to(ROOT / "src" / "tidemill") and path not in (*PUBLIC, PLUGIN)]
)
def test_a_package_exports_nothing(path: Path) -> None:
    """
    `__init__` contains only a docstring, so that the graph of imports is accurate.
    """
    statements = parsed(path).body

    assert 1 == len(statements)


@for_each(ALL)
def test_no_comment_marks_unfinished_work(path: Path) -> None:
    """
    No comment marks unfinished work, because missing features are listed in the documentation.
    """
    text = path.read_text()

    assert [] == [mark for mark in ("TO" + "DO", "FIX" + "ME", "XX" + "X:") if mark in text]


def test_a_rule_lists_every_file_that_breaks_it() -> None:
    """
    A rule that is checked for each file fails with the name of every bad file, and with the reason.
    """

    def has_letter_e(path: Path, letter: str) -> None:
        assert letter in path.stem, "no such letter"

    test = for_each([ROOT / "tree.py", ROOT / "map.py", ROOT / "sort.py"], "e")(has_letter_e)

    assert "has_letter_e" == test.__name__
    with pytest.raises(AssertionError, match=r"(?s)^map\.py: no such letter.*\nsort\.py: no such letter"):
        test()
