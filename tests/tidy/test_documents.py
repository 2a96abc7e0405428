"""The pages describe what is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHERE = ROOT / "docs" / "where.md"
ARCHITECTURE = ROOT / "docs" / "ARCHITECTURE.md"
SUPPORT = ROOT / "docs" / "protocol" / "support.md"
GROUPS = ROOT / "docs" / "groups.md"
A_MAP_ROW = re.compile(r"^\| (?P<folders>`[^|]+/`) \| (?P<what>.+) \|$", re.MULTILINE)
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


def _mapped() -> list[tuple[str, str]]:
    """Folder or folders, and the name of a file in one of them, as the file map of ARCHITECTURE.md says."""
    file_map = ARCHITECTURE.read_text().partition("## The file map")[2].partition("\n## ")[0]
    return [
        (folders, name) for folders, what in A_MAP_ROW.findall(file_map) for name in re.findall(r"`([a-z_]+)/?`", what)
    ]


@pytest.mark.parametrize(("folders", "name"), _mapped())
def test_the_file_map_names_files_that_exist(folders: str, name: str) -> None:
    """
    Where somebody looks for a file, it is.
    """
    places = [ROOT / "src" / "tidemill" / folder for folder in re.findall(r"`([\w/]+)/`", folders)]

    assert any([*place.rglob(f"{name}.py"), *place.rglob(name)] for place in places)


def test_the_file_map_knows_every_folder() -> None:
    """
    A room that the map does not show would not be found.
    """
    text = ARCHITECTURE.read_text()
    rooms = sorted(path.parent.name for path in (ROOT / "src" / "tidemill").glob("*/__init__.py"))

    assert [] == [room for room in rooms if f"`{room}/`" not in text and f"`{room}/" not in text]


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
    lines = ARCHITECTURE.read_text().splitlines()

    assert len(lines) < 300


def test_the_architecture_names_files_that_exist() -> None:
    """
    It describes what is there, not what is planned.
    """
    text = ARCHITECTURE.read_text()
    rooms = "|".join(sorted(path.parent.name for path in (ROOT / "src" / "tidemill").glob("*/__init__.py")))
    paths = re.findall(r"`((?:src|docs|tests|tools|benchmarks)/[\w./-]+)`", text)
    modules = re.findall(rf"\b((?:{rooms})/[a-z_/]+[a-z_])(?:\.(?:propose|advance|read)\b)?", text)
    links = re.findall(r"\]\(([\w./]+)\)", text)
    source = ROOT / "src" / "tidemill"

    assert modules and links
    assert [] == [path for path in paths if not (ROOT / path).exists()]
    assert [] == [path for path in links if not (ROOT / "docs" / path).exists()]
    assert [] == [m for m in modules if not ((source / f"{m}.py").is_file() or (source / m).is_dir())]


def test_the_groups_page_names_tests_that_exist() -> None:
    """
    Each rule says what shows it, and who renames a test hears of it.
    """
    table = GROUPS.read_text().partition("| rule |")[2].partition("\n## ")[0]
    named = re.findall(r"`(?:\w+\.)?(\w+)`", " ".join(row.rpartition(" | ")[2] for row in table.splitlines()[2:]))
    there = {name for path in (ROOT / "tests").rglob("*.py") for name in re.findall(r"def (\w+)", path.read_text())}

    assert len(named) > 10
    assert [] == [name for name in named if not {name, f"test_{name}"} & there]
