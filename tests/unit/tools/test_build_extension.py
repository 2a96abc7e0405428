"""The build of the compiled modules, tested with a fake compiler."""

from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tidemill.batches.compiled_build import COMPILED_MODULES, build_name
from tools import build_extension

ONE, *OTHERS = COMPILED_MODULES


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """
    Create sources, and install a fake compiler that creates empty files of the right names.

    Return the modules that are compiled, which grows.
    """
    compiled: list[str] = []

    def compile_modules(modules: Sequence[str]) -> None:
        compiled.extend(modules)
        for module in modules:
            build_of(module).touch()

    monkeypatch.setattr(build_extension, "SOURCES", tmp_path)
    monkeypatch.setattr(build_extension, "_compile", compile_modules)
    monkeypatch.setattr(build_extension.shutil, "which", lambda compiler: f"/usr/bin/{compiler}")
    for module in COMPILED_MODULES:
        source = build_extension.source_of(module)
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_bytes(b"one")
    return compiled


def build_of(module: str) -> Path:
    source = build_extension.source_of(module)
    name = build_name(module, source.read_bytes()).rpartition(".")[2]
    return source.with_name(name + EXTENSION_SUFFIXES[0])


def test_a_stale_build_is_replaced(compiled: list[str]):
    """When a source has changed, the new build has another name, and the old build is removed."""
    first = build_extension.build()
    build_extension.source_of(ONE).write_bytes(b"two")

    second = build_extension.build()

    assert {**first, ONE: build_of(ONE)} == second
    assert [*COMPILED_MODULES, ONE] == compiled
    assert not first[ONE].exists() and all(path and path.exists() for path in second.values())


def test_existing_builds_are_kept(compiled: list[str]):
    """Existing builds of the same sources are kept, because every run of `make` starts the tool."""
    kept = build_extension.build()

    assert build_extension.build() == kept
    assert [*COMPILED_MODULES] == compiled


def test_without_a_compiler_there_are_no_builds(compiled: list[str], monkeypatch: pytest.MonkeyPatch):
    """Without a compiler there are no builds and no error: the modules run as plain Python."""
    monkeypatch.setattr(build_extension.shutil, "which", lambda compiler: None)

    assert dict.fromkeys(COMPILED_MODULES) == build_extension.build()
    assert [] == compiled
