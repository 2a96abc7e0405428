"""The documentation names files and tests that exist."""

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
def test_the_files_of_a_behaviour_exist(behaviour: str, paths: list[str]) -> None:
    """
    `docs/where.md` maps each behaviour to files that exist.
    """
    missing = [path for path in paths if not (ROOT / path).exists()]

    assert [] == missing, behaviour


def _mapped() -> list[tuple[str, str]]:
    """Return, for each file that the file map in ARCHITECTURE.md names, the folders of its row and the file's name."""
    file_map = ARCHITECTURE.read_text().partition("## The file map")[2].partition("\n## ")[0]
    return [
        (folders, name) for folders, what in A_MAP_ROW.findall(file_map) for name in re.findall(r"`([a-z_]+)/?`", what)
    ]


@pytest.mark.parametrize(("folders", "name"), _mapped())
def test_the_file_map_names_files_that_exist(folders: str, name: str) -> None:
    """
    Every file in the file map is in one of the folders of its row.
    """
    places = [ROOT / "src" / "tidemill" / folder for folder in re.findall(r"`([\w/]+)/`", folders)]

    assert any([*place.rglob(f"{name}.py"), *place.rglob(name)] for place in places)


def test_the_file_map_has_every_folder() -> None:
    """
    The file map contains every folder, because a newcomer would not find a folder that is missing from it.
    """
    text = ARCHITECTURE.read_text()
    folders = sorted(path.parent.name for path in (ROOT / "src" / "tidemill").glob("*/__init__.py"))

    assert [] == [folder for folder in folders if f"`{folder}/`" not in text and f"`{folder}/" not in text]


def test_the_page_answers_twenty_questions() -> None:
    """
    `docs/where.md` answers about twenty questions: fewer would leave a newcomer searching, and more would not fit on
    a screen.
    """
    behaviours = [behaviour for behaviour, _ in _rows()]

    assert 20 <= len(behaviours)


def test_the_architecture_can_be_read_in_one_sitting() -> None:
    """
    ARCHITECTURE.md, the first page that a newcomer reads, has fewer than 300 lines.
    """
    lines = ARCHITECTURE.read_text().splitlines()

    assert len(lines) < 300


def test_the_architecture_names_files_that_exist() -> None:
    """
    ARCHITECTURE.md describes existing files, not planned ones.
    """
    text = ARCHITECTURE.read_text()
    folders = "|".join(sorted(path.parent.name for path in (ROOT / "src" / "tidemill").glob("*/__init__.py")))
    paths = re.findall(r"`((?:src|docs|tests|tools|benchmarks)/[\w./-]+)`", text)
    modules = re.findall(rf"\b((?:{folders})/[a-z_/]+[a-z_])(?:\.(?:propose|advance|read)\b)?", text)
    links = re.findall(r"\]\(([\w./]+)\)", text)
    source = ROOT / "src" / "tidemill"

    assert modules and links
    assert [] == [path for path in paths if not (ROOT / path).exists()]
    assert [] == [path for path in links if not (ROOT / "docs" / path).exists()]
    assert [] == [m for m in modules if not ((source / f"{m}.py").is_file() or (source / m).is_dir())]


def test_the_groups_page_names_tests_that_exist() -> None:
    """
    The tests that the page about groups cites exist, so that a test cannot be renamed without updating the page.
    """
    table = GROUPS.read_text().partition("| rule |")[2].partition("\n## ")[0]
    named = re.findall(r"`(?:\w+\.)?(\w+)`", " ".join(row.rpartition(" | ")[2] for row in table.splitlines()[2:]))
    existing = {name for path in (ROOT / "tests").rglob("*.py") for name in re.findall(r"def (\w+)", path.read_text())}

    assert len(named) > 10
    assert [] == [name for name in named if not {name, f"test_{name}"} & existing]


def test_a_reference_to_a_decision_has_a_record() -> None:
    """
    Every comment "(decision N)" refers to an existing decision record, which contains the reasons and figures that the
    comment leaves out.
    """
    text = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    numbers = {int(number) for number in re.findall(r"\(decision\s+(\d+)\)", text)}
    records = {int(path.name[:4]) for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md")}

    assert numbers
    assert set() == numbers - records


def test_the_recipes_name_files_that_exist() -> None:
    """
    Each step of a recipe in CONTRIBUTING.md names files that a newcomer can open.
    """
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"`((?:src|docs|tests|tools)/[\w./-]+)`", text)

    assert paths
    assert [] == [path for path in paths if not (ROOT / path).exists()]


@pytest.mark.parametrize("record", sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")), ids=lambda path: path.stem)
def test_a_decision_record_has_all_its_sections(record: Path) -> None:
    """
    A decision record has all its sections: without its cost, alternatives and figures, a reader could not reassess the
    decision.
    """
    sections = re.findall(r"^## (.+)$", record.read_text(), re.MULTILINE)

    assert set() == {"Context", "Decision", "Cost", "Turned down", "Figures"} - {*sections}
