"""Selection of the implementation of `scan`."""

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tidemill.batches import native
from tidemill.batches import scan as plain
from tidemill.batches.scan_build import compiled_name

SOURCE = Path(plain.__file__)


def test_the_plain_implementation_is_the_source():
    """`tidemill.batches.scan` is always plain Python; only `native` selects a compiled build."""
    assert SOURCE.suffix == ".py"


def test_a_build_of_this_source_is_used_if_it_exists():
    """If a build of this source exists, `native.scan` is that build, and `is_compiled` says so."""
    name = compiled_name(SOURCE.read_bytes())
    is_built = SOURCE.with_name(name + EXTENSION_SUFFIXES[0]).exists()

    form = native.scan

    assert native.is_compiled() is is_built
    assert form.__name__ == f"tidemill.batches.{name if is_built else 'scan'}"


def test_a_build_of_another_source_is_not_found(monkeypatch: pytest.MonkeyPatch):
    """A source that differs by one byte has a build with a different name, so a stale build never runs."""
    monkeypatch.setattr(native, "get_data", lambda package, name: SOURCE.read_bytes() + b"\n")

    assert native.compiled_scan() is None


def test_without_the_source_no_build_is_found(monkeypatch: pytest.MonkeyPatch):
    """If the package loader cannot return the source, the plain implementation is used instead of a build."""
    monkeypatch.setattr(native, "get_data", lambda package, name: None)

    assert native.compiled_scan() is None
