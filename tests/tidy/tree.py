"""Our source files, as syntax trees; what several tidy tests walk."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tidemill"


def files(*folders: str) -> list[Path]:
    """Python files below these folders of `src/tidemill`; all of them without an argument."""
    return [path for folder in folders or ("",) for path in sorted((SOURCE / folder).rglob("*.py"))]


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def imported_roots(path: Path) -> set[str]:
    """The first part of every module that the file imports, at its top or later."""
    roots = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots.add((node.module or "").split(".")[0])
    return roots


def attribute_names(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything like `asyncio.wait`."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.lineno, f"{node.value.id}.{node.attr}"
