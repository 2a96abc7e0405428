"""Names and prose follow the vocabulary of `docs/glossary.md`."""

import ast
import re
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT, for_each, named, parsed

_RETIRED = """
spread Spread gather_spread spread_ended mostly_follows
settle settled SETTLED is_settled _settle_idle _settle_again
airborne _airborne AIRBORNE_MAX facts put_fact fold Found found_directory found_damage FoundCluster
Place Opening _Capture hand_over HandOvers hands_over_to Depose Append AppendAnswer VoteAnswer Offer Pull Chunk
Voter Pace Replication _stand _may_stand is_restless promised
ask_whether_it_leads when_still_leading confirmed_serial began_again met_again lost_sight
_leave_office LEAVES_OFFICE able_to_lead Road at_controller ControllerLink CurrentImage is_cut_off hears_majority
hear_controller Seldom AwakeClock LeaderBalance MembershipHost NewLeaders LedTopics AwaitedLeaders Quorum
when_held accepts takes_more lacks_room go_on carry_out look Grounds Moment Turn MOVES
GroupRun Broken
is_isolated Standing
_found _transfer
"""
RETIRED_IDENTIFIERS = frozenset(_RETIRED.split())
OF_LIBRARIES = {
    "src/tidemill/cli/output.py": {"fold"},  # rich's term for breaking a long word at the column's end
    "src/tidemill/timer/schedule.py": {"fold"},  # datetime's term for a time that the clock shows again
    "src/tidemill/simulation/clients/cron_oracle.py": {"fold"},
}
RETIRED_WORDS = (
    "airborne", "depose", "deposes", "deposed", "folded", "folds", "hand-over", "hand-overs", "hands over",
    "handed over", "hand over", "settled", "in the air", "office", "who leads", "whoever", "nobody", "somebody",
    "restless", "twin", "twins", "entrance",
)  # fmt: skip
A_RETIRED_PATTERN = re.compile(r"_?Kept(?:[A-Z]\w*)?")  # the models of the simulation are named Model*
A_RETIRED_WORD = re.compile(rf"\b(?:{'|'.join(RETIRED_WORDS)})\b", re.IGNORECASE)
A_BAD_START = re.compile(r"(?:Of|As|Who)\b")
A_CODE_SPAN = re.compile(r"`([^`\n]+)`")
DOCS_COLUMNS = 100

SELF = Path(__file__).resolve()
SOURCE = sorted((ROOT / "src").rglob("*.py"))
CODE = [path for path in SOURCE + sorted((ROOT / "tests").rglob("*.py")) if path != SELF]
PAGES = [*sorted((ROOT / "docs").rglob("*.md"))]
PAGES += [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES = [path for path in PAGES if path.is_file()]


def _identifiers(path: Path) -> set[str]:
    """
    Return every name that the file defines, reads, imports or passes by keyword, and the names in strings such as "a"
    and "a.b".
    """
    names = {path.stem}
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.ImportFrom(module=str(module)):
                names |= {*module.split(".")}
            case ast.alias(name=name, asname=alias):
                names |= {*name.split("."), *([alias] if alias else [])}
            case ast.Global(names=several) | ast.Nonlocal(names=several) | ast.MatchClass(kwd_attrs=several):
                names |= {*several}
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
            case ast.Constant(value=str(text)) if all(part.isidentifier() for part in text.split(".")):
                names |= {*text.split(".")}
    return names


def _strings(path: Path) -> list[tuple[int, str]]:
    """Return the string literals of a file and the texts of its f-strings, with their line numbers."""
    constants = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Constant)]
    return [(node.lineno, node.value) for node in constants if isinstance(node.value, str)]


def _docstrings(path: Path) -> list[tuple[int, str]]:
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documented = [node for node in ast.walk(parsed(path)) if isinstance(node, nodes) and ast.get_docstring(node)]
    return [(node.body[0].lineno, ast.get_docstring(node) or "") for node in documented]


def _prose_lines(page: Path) -> list[tuple[int, str]]:
    """Return the lines of a page outside code blocks, with their numbers and with code spans blanked out."""
    lines = []
    is_code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            lines.append((number, A_CODE_SPAN.sub("``", line)))
    return lines


@pytest.mark.parametrize(
    "code",
    [
        "fold = 1",
        "a.fold",
        "import a.fold",
        "from a.fold import b",
        "import a as fold",
        "f(fold=1)",
        "def fold(): pass",
        "lambda fold: 1",
        "def f():\n    global fold",
        "def f():\n    fold = 1\n    def g():\n        nonlocal fold",
        "try: pass\nexcept E as fold: pass",
        "match a:\n    case fold: pass",
        "match a:\n    case int() as fold: pass",
        "match a:\n    case [*fold]: pass",
        "match a:\n    case {**fold}: pass",
        "match a:\n    case B(fold=1): pass",
        "__slots__ = ('fold',)",
        "patch('a.fold.b')",
    ],
)
def test_every_kind_of_identifier_is_found(code: str, tmp_path: Path) -> None:
    """
    A name is found wherever Python's grammar allows one, and in a string that is a name or a dotted name.
    """
    path = tmp_path / "code.py"
    path.write_text(code)

    assert "fold" in _identifiers(path)


@for_each(CODE)
def test_no_retired_identifier_is_used(path: Path) -> None:
    """
    No retired identifier is used, because it would be a second name for an idea.
    """
    names = _identifiers(path) - OF_LIBRARIES.get(named(path), set())
    retired = names & RETIRED_IDENTIFIERS | {name for name in names if A_RETIRED_PATTERN.fullmatch(name)}

    assert [] == sorted(retired)


@for_each(PAGES)
def test_no_code_span_names_a_retired_identifier(page: Path) -> None:
    """
    No page names a retired identifier, because readers would search the code for it in vain.  The changelog may list
    old names.
    """
    text = page.read_text().partition("## Renamed")[0]
    spans = {word for span in A_CODE_SPAN.findall(text) for word in re.findall(r"\w+", span)}

    assert [] == sorted(spans & RETIRED_IDENTIFIERS)


@for_each(CODE)
def test_no_docstring_or_comment_uses_a_retired_word(path: Path) -> None:
    """
    Docstrings and comments use no retired words, but name the subject and use the usual terms.
    """
    comments = [
        (number, line.partition("#")[2]) for number, line in enumerate(path.read_text().splitlines(), 1) if "# " in line
    ]
    texts = _docstrings(path) + comments

    assert [] == [(number, found) for number, text in texts if (found := A_RETIRED_WORD.findall(text))]


@for_each(SOURCE)
def test_no_message_uses_a_retired_word(path: Path) -> None:
    """
    Error messages, log events and other string literals use no retired words.
    """
    assert [] == [(number, found) for number, text in _strings(path) if (found := A_RETIRED_WORD.findall(text))]


@for_each(CODE)
def test_a_docstring_starts_with_its_subject(path: Path) -> None:
    """
    A docstring does not start with "Of", "As" or "Who", which begin sentences that hide their subject.
    """
    assert [] == [(number, text[:40]) for number, text in _docstrings(path) if A_BAD_START.match(text)]


@for_each(PAGES)
def test_no_page_uses_a_retired_word(page: Path) -> None:
    """
    No page uses a retired word instead of a term of the glossary.
    """
    assert [] == [(number, found) for number, line in _prose_lines(page) if (found := A_RETIRED_WORD.findall(line))]


@for_each(PAGES)
def test_a_page_wraps_at_100_columns(page: Path) -> None:
    """
    A page wraps at 100 columns, so that it can be read next to code.  Tables and code blocks are exempt.
    """
    numbered = dict(enumerate(page.read_text().splitlines(), 1))
    prose = [number for number, line in _prose_lines(page) if not line.lstrip().startswith("|")]

    assert [] == [number for number in prose if len(numbered[number]) > DOCS_COLUMNS]
