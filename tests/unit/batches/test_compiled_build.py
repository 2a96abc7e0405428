"""Finding the builds of the modules that are compiled."""

from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tidemill.batches import compiled_build as builds
from tidemill.batches.compiled_build import COMPILED_MODULES, build_name, build_prefix, compiled_build

each_module = pytest.mark.parametrize("module", COMPILED_MODULES)


def source_of(module: str) -> Path:
    return Path(str(import_module(module).__file__))


def test_a_build_is_named_after_its_module_and_source():
    """The builds of a module lie next to it, and differ if their sources do."""
    name = build_name("tidemill.batches.scan", b"one")

    assert name.startswith("tidemill.batches._scan_") and name.startswith(build_prefix("tidemill.batches.scan"))
    assert name != build_name("tidemill.batches.scan", b"two")


@each_module
def test_a_build_of_this_source_is_found_if_it_exists(module: str):
    """The file of the build is next to the source."""
    source = source_of(module)
    name = build_name(module, source.read_bytes())
    path = source.with_name(name.rpartition(".")[2] + EXTENSION_SUFFIXES[0])

    found = compiled_build(module)

    assert path.exists() is (found is not None)
    assert found is None or found.__name__ == name


@each_module
def test_a_build_of_another_source_is_not_found(module: str, monkeypatch: pytest.MonkeyPatch):
    """A source that differs by one byte has a build with a different name, so a stale build never runs."""
    monkeypatch.setattr(builds, "get_data", lambda package, name: source_of(module).read_bytes() + b"\n")

    assert compiled_build(module) is None


def test_without_the_source_no_build_is_found(monkeypatch: pytest.MonkeyPatch):
    """If the package loader cannot return the source, the plain implementation is used instead of a build."""
    monkeypatch.setattr(builds, "get_data", lambda package, name: None)

    assert compiled_build(COMPILED_MODULES[0]) is None
