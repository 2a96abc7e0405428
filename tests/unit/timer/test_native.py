"""Selection of the implementation of the compiled modules."""

from importlib import import_module

import pytest

from tidemill.batches.compiled_build import compiled_build
from tidemill.timer import native


@pytest.mark.parametrize("name", ["due_scan", "due_values"])
def test_a_build_of_this_source_is_used_if_it_exists(name: str) -> None:
    """The module of this name is always plain Python; only `native` selects a compiled build."""
    plain = import_module(f"tidemill.timer.{name}")

    assert str(plain.__file__).endswith(".py")
    assert getattr(native, name) is (compiled_build(f"tidemill.timer.{name}") or plain)
