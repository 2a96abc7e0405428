"""Selection of the implementation of `scan`."""

from tidemill.batches import native
from tidemill.batches import scan as plain
from tidemill.batches.compiled_build import compiled_build


def test_the_plain_implementation_is_the_source():
    """`tidemill.batches.scan` is always plain Python; only `native` selects a compiled build."""
    assert plain.__file__.endswith(".py")


def test_a_build_of_this_source_is_used_if_it_exists():
    """If a build of this source exists, `native.scan` is that build, and `is_compiled` says so."""
    build = compiled_build(native.NAME)

    assert native.is_compiled() is (build is not None)
    assert native.scan is (build or plain)
