"""The source files and their syntax trees, for the other tidy tests."""

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tidemill"


def files(*folders: str) -> list[Path]:
    """Return the Python files below these folders of `src/tidemill`, or all files without an argument."""
    return [path for folder in folders or ("",) for path in sorted((SOURCE / folder).rglob("*.py"))]


def for_each(paths: Iterable[Path], *more: Any) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """
    Return a decorator that turns a check of one file into a single test of all `paths`.  The check also gets the
    arguments `more`, and the test fails with a list of the bad files.

    The suite has 10,000 pairs of a file and a rule: with a test for each pair, they would take a minute.
    """

    def decorate(check: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            failures = []
            for path in paths:
                try:
                    check(path, *more)
                except AssertionError as failure:
                    failures.append(f"{named(path)}: {failure}")
            assert not failures, "\n".join(failures)

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return decorate


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def imported_names(path: Path) -> set[str]:
    """Return the dotted names of everything that the file imports, at the top or inside functions."""
    names = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module or ''}.{alias.name}" for alias in node.names}
    return names


def imported_roots(path: Path) -> set[str]:
    """Return the first part of each imported name."""
    return {name.split(".")[0] for name in imported_names(path)}


def attribute_names(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line number and the dotted name of every attribute access such as `asyncio.wait`."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.lineno, f"{node.value.id}.{node.attr}"
