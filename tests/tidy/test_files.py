"""A file is one concept, and says which."""

import ast
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT, files, named, parsed

NAMELESS = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}
ALL = files() + sorted((ROOT / "src" / "pyspark_tidemill").rglob("*.py")) + sorted((ROOT / "tools").glob("*.py"))
PACKAGES = [path for path in ALL if path.name == "__init__.py"]


@pytest.mark.parametrize("path", ALL, ids=named)
def test_a_file_says_what_it_is(path: Path) -> None:
    """
    The first thing in a file is a sentence about its concept.
    """
    docstring = ast.get_docstring(parsed(path))

    assert docstring


@pytest.mark.parametrize("path", ALL, ids=named)
def test_a_file_is_named_after_its_concept(path: Path) -> None:
    """
    A name that fits everything says nothing.
    """
    words = {path.stem, *path.stem.split("_"), *path.parent.parts}

    assert set() == words & NAMELESS


@pytest.mark.parametrize(
    "path", [path for path in PACKAGES if path.is_relative_to(ROOT / "src" / "tidemill")], ids=named
)
def test_a_package_exports_nothing(path: Path) -> None:
    """
    `__init__` holds a docstring only, so that the graph of imports tells the truth.
    """
    statements = parsed(path).body

    assert 1 == len(statements)


@pytest.mark.parametrize("path", ALL, ids=named)
def test_nothing_is_left_to_do(path: Path) -> None:
    """
    What is not there is said in the pages, not in a comment nobody finds.
    """
    text = path.read_text()

    assert [] == [mark for mark in ("TO" + "DO", "FIX" + "ME", "XX" + "X:") if mark in text]
