"""Selection of the implementation of `due_scan`."""

from tidemill.batches.compiled_build import compiled_build
from tidemill.timer import due_scan as plain
from tidemill.timer import native


def test_a_build_of_this_source_is_used_if_it_exists() -> None:
    """`tidemill.timer.due_scan` is always plain Python; only `native` selects a compiled build."""
    assert plain.__file__.endswith(".py")
    assert native.due_scan is (compiled_build("tidemill.timer.due_scan") or plain)
