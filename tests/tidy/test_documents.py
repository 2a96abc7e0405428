"""The pages describe what is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHERE = ROOT / "docs" / "where.md"
ARCHITECTURE = ROOT / "docs" / "ARCHITECTURE.md"
SUPPORT = ROOT / "docs" / "protocol" / "support.md"
A_ROW = re.compile(r"^\| (?P<behaviour>[^|]+) \| (?P<files>[^|]*`[^|]+) \|$", re.MULTILINE)


def _rows() -> list[tuple[str, list[str]]]:
    rows = A_ROW.findall(WHERE.read_text())
    return [(behaviour.strip(), re.findall(r"`([^`]+)`", files)) for behaviour, files in rows]


@pytest.mark.parametrize(("behaviour", "paths"), _rows())
def test_a_behaviour_is_where_the_page_says(behaviour: str, paths: list[str]) -> None:
    """
    Who wonders where something is done finds a file that exists.
    """
    missing = [path for path in paths if not (ROOT / path).exists()]

    assert [] == missing, behaviour


def test_the_page_answers_twenty_questions() -> None:
    """
    Fewer would leave a newcomer searching; the page is one screen.
    """
    behaviours = [behaviour for behaviour, _ in _rows()]

    assert 20 <= len(behaviours)


def test_the_architecture_can_be_read_at_one_sitting() -> None:
    """
    It is the first thing a newcomer reads: less than 300 lines.
    """
    if not ARCHITECTURE.exists():
        pytest.skip("docs/ARCHITECTURE.md is not written yet")

    lines = ARCHITECTURE.read_text().splitlines()

    assert len(lines) < 300


def test_the_architecture_names_files_that_exist() -> None:
    """
    It describes what is there, not what is planned.
    """
    if not ARCHITECTURE.exists():
        pytest.skip("docs/ARCHITECTURE.md is not written yet")

    paths = re.findall(r"`((?:src|docs|tests|tools|benchmarks)/[\w./-]+)`", ARCHITECTURE.read_text())

    assert [] == [path for path in paths if not (ROOT / path).exists()]
